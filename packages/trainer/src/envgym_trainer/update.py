"""From a step's rollouts to an update of the policy."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch

from envgym_generator.types import GeneratorOutput
from envgym_trainer import dotted_path
from envgym_trainer.advantage import ESTIMATORS, Estimator, make_episodes, permute_rewards
from envgym_trainer.batch import Row, Tokens, collate, make_rows, padding_fraction, split_by_length
from envgym_trainer.config import AlgorithmSection
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy
from envgym_trainer.errors import RunError
from envgym_trainer.loss import Clip, policy_loss, token_weights
from envgym_trainer.parity import sampling_logprobs
from envgym_trainer.sampler import number_from


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRow:
    """A row, and what is known of its trained tokens before the forward pass."""

    row: Row
    advantages: tuple[float, ...]
    """[N]"""
    sampling_logprobs: tuple[float, ...] | None
    """[N] of the policy that sampled the tokens; None where they were scripted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """Rows of one forward pass. All but ``tokens`` are float32, [N], one value per trained token."""

    indices: tuple[int, ...]
    """Of the rows, in the batch they were taken from."""
    tokens: Tokens
    advantages: torch.Tensor
    sampling_logprobs: torch.Tensor
    """NaN where there are none."""
    weights: torch.Tensor
    """In the loss of the whole batch, see ``loss.token_weights``."""
    lengths: list[int]
    """Of the rows: N is their sum."""

    def to(self, device: torch.device) -> "MicroBatch":
        """The same on another device."""
        return replace(
            self,
            tokens=self.tokens.to(device),
            advantages=self.advantages.to(device),
            sampling_logprobs=self.sampling_logprobs.to(device),
            weights=self.weights.to(device),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Gradient:
    """What the forward and backward passes of one update found. The gradient itself is in the policy."""

    logprobs: list[list[float]]
    """For each row [N], on the weights before the update."""
    loss: float
    """Weighted sum of the token losses."""
    entropy: float
    """Mean over the trained tokens, in nats."""
    clipped_fraction: float
    """Tokens without gradient because a bound of the ratio held ÷ trained tokens."""
    padding_fraction: float
    """Padding ÷ ids computed."""
    num_tokens: int
    """Ids computed, padding included."""


def training_rows(
    output: GeneratorOutput, section: AlgorithmSection, *, seed: int, step: int
) -> list[TrainingRow]:
    """Rows with advantages for everything in the output that is trained on.

    Args:
        output: rollouts of one step.
        section: names the estimator.
        seed: of the run, for ``permute_rewards``.
        step: likewise.
    """
    episodes = make_episodes(output.rollouts)
    judged = list(episodes.values())
    if section.permute_rewards:
        judged = permute_rewards(judged, random.Random(number_from("permute", seed, step)))
    advantages_of = find_estimator(section.advantage)(judged, section)
    # One iterator per rollout, from which its segments take theirs in turn.
    estimates = {index: iter(values) for index, values in zip(episodes, advantages_of, strict=True)}
    rows: list[TrainingRow] = []
    for row in make_rows(output):
        segment = output.rollouts[row.rollout].segments[row.segment]
        advantages = tuple(islice(estimates[row.rollout], row.num_trained))
        rows.append(TrainingRow(row=row, advantages=advantages, sampling_logprobs=sampling_logprobs(segment, row)))
    return rows


def find_estimator(name: str) -> Estimator:
    """The advantage estimator of a name, or of a dotted path."""
    return ESTIMATORS[name] if name in ESTIMATORS else dotted_path.load(name, "algorithm.advantage")


def split_into_updates(
    rows: Sequence[TrainingRow], output: GeneratorOutput, count: int
) -> list[list[TrainingRow]]:
    """Divide a step's rows over its updates, whole groups together, in order. Empty parts are left out."""
    groups = list(dict.fromkeys(output.rollouts[row.row.rollout].request.group for row in rows))
    part_of = {group: number * count // len(groups) for number, group in enumerate(groups)}
    parts: list[list[TrainingRow]] = [[] for _ in range(count)]
    for row in rows:
        parts[part_of[output.rollouts[row.row.rollout].request.group]].append(row)
    return [part for part in parts if part]


def micro_batches(rows: Sequence[TrainingRow], section: AlgorithmSection) -> Iterator[MicroBatch]:
    """Cut a batch into micro-batches of rows of like length, with weights for the whole batch."""
    weights = token_weights([row.row for row in rows], section.reduction, section.fixed_length)
    for indices in split_by_length([len(row.row.ids) for row in rows], section.micro_batch_tokens):
        members = [rows[index] for index in indices]
        yield MicroBatch(
            indices=tuple(indices),
            tokens=collate([member.row for member in members]),
            advantages=_flat([member.advantages for member in members]),
            sampling_logprobs=_flat(
                [member.sampling_logprobs or (math.nan,) * member.row.num_trained for member in members]
            ),
            weights=_flat([(weights[index],) * rows[index].row.num_trained for index in indices]),
            lengths=[member.row.num_trained for member in members],
        )


def _flat(values: Sequence[Sequence[float]]) -> torch.Tensor:
    return torch.tensor([value for row in values for value in row], dtype=torch.float32)


def accumulate_gradient(
    policy: DeepSpeedPolicy, rows: Sequence[TrainingRow], section: AlgorithmSection, temperature: float
) -> Gradient:
    """Run forward and backward over all micro-batches of an update, without applying it.

    Args:
        policy: gets the gradient of the loss of the whole batch.
        rows: at least one.
        section: loss, reduction and sizes.
        temperature: that the tokens were sampled at.

    Raises:
        RunError: if the loss is not finite.
    """
    clip = Clip(low=section.clip_low, high=section.clip_high, dual=section.dual_clip)
    batches = list(micro_batches(rows, section))
    logprobs: list[list[float]] = [[] for _ in rows]
    loss = entropy = clipped = 0.0
    for number, batch in enumerate(batch.to(policy.device) for batch in batches):
        found, entropies = policy.statistics(
            batch.tokens, temperature, entropy_gradient=section.entropy_coef != 0.0
        )
        # Scripted tokens have no sampling log-probability: their ratio is 1, and they are reinforced as they are.
        sampled = torch.where(batch.sampling_logprobs.isnan(), found.detach(), batch.sampling_logprobs)
        token_loss = policy_loss(found, sampled, batch.advantages, clip)
        policy_term = (batch.weights * token_loss.losses).sum()
        entropy_term = (batch.weights * entropies).sum()
        policy.backward(policy_term - section.entropy_coef * entropy_term, last=number == len(batches) - 1)
        loss += policy_term.item()
        entropy += entropies.sum().item()
        clipped += token_loss.clipped.sum().item()
        for index, part in zip(batch.indices, found.detach().split(batch.lengths), strict=True):
            logprobs[index] = part.tolist()
    if not math.isfinite(loss):
        raise RunError(f"the loss is {loss} and nothing was updated; lower algorithm.lr, or look at the rollouts")
    count = sum(row.row.num_trained for row in rows)
    return Gradient(
        logprobs=logprobs,
        loss=loss,
        entropy=entropy / count,
        clipped_fraction=clipped / count,
        padding_fraction=padding_fraction(batch.tokens for batch in batches),
        num_tokens=sum(batch.tokens.num_computed for batch in batches),
    )
