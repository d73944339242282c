"""Supervised fine-tuning: cross-entropy on the trained tokens of saved rollouts, such as demonstrations."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from envgym_trainer.batch import Row, collate, split_by_length
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy
from envgym_trainer.errors import RunError
from envgym_trainer.schedule import learning_rate

SORTED_BATCHES = 16
"""Rows are sorted by length within pools of this many batches: little padding, and still well mixed."""
AVERAGED_STEPS = 10
"""``stop_below`` is compared with the mean loss of this many steps; one small batch says little."""


@dataclass(kw_only=True)
class SftSection:
    """How long and how fast to imitate."""

    steps: int
    batch_size: int = 16
    """Segments per step."""
    micro_batch_tokens: int = 4096
    """Most ids (padding included) in one forward pass."""
    lr: float = 1e-5
    schedule: str = "cosine"
    """``constant``, ``linear`` or ``cosine``; the last two end at 0."""
    warmup_steps: int = 0
    weight_decay: float = 0.0
    """Of AdamW."""
    adam_beta2: float = 0.999
    """Of AdamW."""
    stop_below: float | None = None
    """End early once the mean loss of the last 10 steps is below this. Never getting there is an error."""
    deadline_s: float | None = None
    """Seconds after which not having come below ``stop_below`` is an error."""
    seed: int = 0
    """Of the order of the rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SftStep:
    """What one step did."""

    step: int
    """From 1."""
    loss: float
    """Mean negative log-probability of the batch's trained tokens."""
    grad_norm: float
    learning_rate: float
    num_tokens: int
    """Ids computed, padding included."""

    def metrics(self) -> dict[str, float | int]:
        """As a line of ``metrics.jsonl``."""
        return {
            "step": self.step,
            "loss/sft": self.loss,
            "grad/norm": self.grad_norm,
            "grad/learning_rate": self.learning_rate,
            "tokens/computed": self.num_tokens,
        }


def sft(
    policy: DeepSpeedPolicy, rows: Sequence[Row], section: SftSection, report: Callable[[SftStep], None]
) -> None:
    """Maximise the log-probability of the rows' trained tokens.

    Args:
        policy: stepped in place.
        rows: at least one.
        section: how long and how fast.
        report: told of each step.

    Raises:
        RunError: if ``stop_below`` was not reached within ``steps`` or within ``deadline_s``.
    """
    started = time.monotonic()
    losses: list[float] = []
    for step, batch in zip(range(1, section.steps + 1), shuffled_batches(rows, section), strict=False):
        rate = learning_rate(
            section.lr, section.schedule, step, warmup_steps=section.warmup_steps, total_steps=section.steps
        )
        done = sft_step(policy, batch, step, rate, section.micro_batch_tokens)
        report(done)
        losses.append(done.loss)
        if section.stop_below is None:
            continue
        recent = losses[-AVERAGED_STEPS:]
        average = sum(recent) / len(recent)
        if len(recent) == AVERAGED_STEPS and average < section.stop_below:
            return
        seconds = time.monotonic() - started
        if step == section.steps or (section.deadline_s is not None and seconds > section.deadline_s):
            raise RunError(
                f"imitation reached a loss of {average:.3f} in {step} steps and {seconds:.0f} s, and was to come "
                f"below {section.stop_below}"
            )


def sft_step(policy: DeepSpeedPolicy, batch: Sequence[Row], step: int, rate: float, max_tokens: int) -> SftStep:
    """One update by the mean negative log-probability of a batch's trained tokens."""
    count = sum(row.num_trained for row in batch)
    parts = split_by_length([len(row.ids) for row in batch], max_tokens)
    loss, num_computed = 0.0, 0
    for number, indices in enumerate(parts):
        tokens = collate([batch[index] for index in indices]).to(policy.device)
        logprobs, _ = policy.statistics(tokens, temperature=1.0)
        term = -logprobs.sum() / count
        policy.backward(term, last=number == len(parts) - 1)
        loss += term.item()
        num_computed += tokens.num_computed
    norm = policy.step(rate)
    return SftStep(step=step, loss=loss, grad_norm=norm, learning_rate=rate, num_tokens=num_computed)


def shuffled_batches(rows: Sequence[Row], section: SftSection) -> Iterator[list[Row]]:
    """Endless batches: every epoch in a new order, each batch of rows of like length."""
    epoch = 0
    while True:
        rng = np.random.default_rng([section.seed, epoch])
        for indices in shuffle_by_length([len(row.ids) for row in rows], section.batch_size, rng):
            yield [rows[index] for index in indices]
        epoch += 1


def shuffle_by_length(lengths: Sequence[int], batch_size: int, rng: np.random.Generator) -> list[list[int]]:
    """Shuffle, sort by length within pools of ``SORTED_BATCHES`` batches, cut, and shuffle the batches."""
    order: list[int] = rng.permutation(len(lengths)).tolist()
    size = batch_size * SORTED_BATCHES
    pools = (order[start : start + size] for start in range(0, len(order), size))
    batches = [
        pool[start : start + batch_size]
        for pool in (sorted(pool, key=lambda index: lengths[index]) for pool in pools)
        for start in range(0, len(pool), batch_size)
    ]
    return [batches[index] for index in rng.permutation(len(batches))]
