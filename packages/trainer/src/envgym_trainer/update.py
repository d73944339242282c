"""From a step's rollouts to an update of the policy."""

import math
import random
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import torch

from envgym_generator.types import GeneratorOutput, SetupError
from envgym_trainer import dotted_path
from envgym_trainer.advantage import (
    ESTIMATORS,
    Advantages,
    Episode,
    Estimator,
    make_episodes,
    permute_rewards,
)
from envgym_trainer.batch import Row, Tokens, collate, make_rows, split_by_length
from envgym_trainer.config import AlgorithmSection
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy, Reference
from envgym_trainer.errors import RunError
from envgym_trainer.loss import Clip, kl_loss, policy_loss, token_weights
from envgym_trainer.parity import sampling_logprobs
from envgym_trainer.ranks import ALONE, Ranks, share_of_groups
from envgym_trainer.sampler import number_from


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingRow:
    """A row, and what is known of its trained tokens before the forward pass."""

    row: Row
    advantages: tuple[float, ...]
    """[N]"""
    sampling_logprobs: tuple[float, ...] | None
    """[N] of the policy that sampled the tokens; None where they were scripted."""
    group: Hashable = None
    """Rows of one task have the same, and go to the same rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """Rows of one forward pass. All but ``tokens`` are float32, [N], one value per trained token."""

    indices: tuple[int, ...]
    """Of the rows, in the batch they were taken from; empty for padding, see ``padding_batch``."""
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
    kl: float | None
    """Estimated divergence from the reference, weighted as the loss is; None without a reference."""
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
    check_advantages(advantages_of, judged, section.advantage)
    # One iterator per rollout, from which its segments take theirs in turn.
    estimates = {index: iter(values) for index, values in zip(episodes, advantages_of, strict=True)}
    rows: list[TrainingRow] = []
    for row in make_rows(output):
        segment = output.rollouts[row.rollout].segments[row.segment]
        advantages = tuple(islice(estimates[row.rollout], row.num_trained))
        rows.append(
            TrainingRow(
                row=row,
                advantages=advantages,
                sampling_logprobs=sampling_logprobs(segment, row),
                group=output.rollouts[row.rollout].request.group,
            )
        )
    return rows


def find_estimator(name: str) -> Estimator:
    """The advantage estimator of a name, or of a dotted path."""
    return ESTIMATORS[name] if name in ESTIMATORS else dotted_path.load(name, "algorithm.advantage")


def check_advantages(advantages: Advantages, episodes: Sequence[Episode], name: str) -> None:
    """Make sure that an estimator gave every trained token one finite number.

    Raises:
        SetupError: names the estimator, which is the user's own.
    """
    expected = [len(episode.token_rewards) for episode in episodes]
    if [len(values) for values in advantages] != expected:
        raise SetupError(f"algorithm.advantage={name} must return one number per trained token of each episode")
    if not all(math.isfinite(value) for values in advantages for value in values):
        raise SetupError(f"algorithm.advantage={name} returned a number that is not finite")


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


def micro_batches(
    rows: Sequence[TrainingRow], section: AlgorithmSection, own: Sequence[int] | None = None
) -> Iterator[MicroBatch]:
    """Cut a batch into micro-batches of rows of like length, with weights for the whole batch.

    Args:
        rows: the whole batch.
        section: reduction and sizes.
        own: the rows that this rank takes; by default all.
    """
    weights = token_weights([row.row for row in rows], section.reduction, section.fixed_length)
    taken = range(len(rows)) if own is None else own
    for part in split_by_length([len(rows[index].row.ids) for index in taken], section.micro_batch_tokens):
        yield _micro_batch(rows, [taken[number] for number in part], weights)


def _micro_batch(rows: Sequence[TrainingRow], indices: Sequence[int], weights: Sequence[float]) -> MicroBatch:
    members = [rows[index] for index in indices]
    return MicroBatch(
        indices=tuple(indices),
        tokens=collate([member.row for member in members]),
        advantages=_flat([member.advantages for member in members]),
        sampling_logprobs=_flat(
            [member.sampling_logprobs or (math.nan,) * member.row.num_trained for member in members]
        ),
        weights=_flat([(weights[index],) * rows[index].row.num_trained for index in indices]),
        lengths=[member.row.num_trained for member in members],
    )


def padding_batch(rows: Sequence[TrainingRow]) -> MicroBatch:
    """A micro-batch of the shortest row, which counts for nothing.

    A rank with fewer micro-batches than the others runs it, because gathering the parameters of a layer takes all.
    """
    shortest = min(range(len(rows)), key=lambda index: len(rows[index].row.ids))
    return replace(_micro_batch(rows, [shortest], [0.0] * len(rows)), indices=())


def _flat(values: Sequence[Sequence[float]]) -> torch.Tensor:
    return torch.tensor([value for row in values for value in row], dtype=torch.float32)


def accumulate_gradient(
    policy: DeepSpeedPolicy,
    rows: Sequence[TrainingRow],
    section: AlgorithmSection,
    temperature: float,
    reference: Reference | None = None,
    ranks: Ranks = ALONE,
) -> Gradient:
    """Run forward and backward over all micro-batches of an update, without applying it.

    Args:
        policy: gets the gradient of the loss of the whole batch.
        rows: at least one; those of all ranks.
        section: loss, reduction and sizes.
        temperature: that the tokens were sampled at.
        reference: frozen, wanted where ``kl_coef`` is above 0.
        ranks: who share the rows, by whole groups; each passes the same.

    Raises:
        RunError: if the loss is not finite.
    """
    clip = Clip(low=section.clip_low, high=section.clip_high, dual=section.dual_clip)
    own = share_of_groups([row.group for row in rows], ranks.rank, ranks.size)
    batches = list(micro_batches(rows, section, own))
    num_passes = ranks.most(len(batches), "agreeing on the number of forward passes")
    batches += [padding_batch(rows)] * (num_passes - len(batches))
    found = Sums()
    for number, batch in enumerate(batches, start=1):
        with ranks.at(f"forward and backward pass {number} of {len(batches)}"):
            _pass(
                policy,
                batch.to(policy.device),
                section,
                temperature,
                clip,
                reference,
                ranks,
                found,
                number == len(batches),
            )
    return _whole(ranks.gather(found, "adding up the losses"), rows, has_reference=reference is not None)


@dataclass(slots=True)
class Sums:
    """What the passes of one rank add up to."""

    logprobs: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    """By row."""
    loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    clipped: float = 0.0
    num_ids: int = 0
    num_computed: int = 0


def _pass(
    policy: DeepSpeedPolicy,
    batch: MicroBatch,
    section: AlgorithmSection,
    temperature: float,
    clip: Clip,
    reference: Reference | None,
    ranks: Ranks,
    sums: Sums,
    last: bool,
) -> None:
    """Forward and backward of one micro-batch; adds what it found to ``sums``."""
    found, entropies = policy.statistics(batch.tokens, temperature, entropy_gradient=section.entropy_coef != 0.0)
    # Scripted tokens have no sampling log-probability: their ratio is 1, and they are reinforced as they are.
    sampled = torch.where(batch.sampling_logprobs.isnan(), found.detach(), batch.sampling_logprobs)
    token_loss = policy_loss(found, sampled, batch.advantages, clip)
    policy_term = (batch.weights * token_loss.losses).sum()
    total = policy_term - section.entropy_coef * (batch.weights * entropies).sum()
    if reference is not None:
        anchor = reference.logprobs(batch.tokens, temperature)
        kl_term = (batch.weights * kl_loss(found, anchor, section.kl_estimator)).sum()
        total = total + section.kl_coef * kl_term
        sums.kl += kl_term.item()
    # DeepSpeed averages gradients over ranks, and ours have the denominators of the whole batch.
    policy.backward(total * ranks.size, last=last)
    sums.num_computed += batch.tokens.num_computed
    if not batch.indices:
        return
    sums.num_ids += batch.tokens.num_ids
    sums.loss += policy_term.item()
    sums.entropy += entropies.sum().item()
    sums.clipped += token_loss.clipped.sum().item()
    for index, part in zip(batch.indices, found.detach().split(batch.lengths), strict=True):
        sums.logprobs[index] = part.tolist()


def _whole(parts: Sequence[Sums], rows: Sequence[TrainingRow], *, has_reference: bool) -> Gradient:
    """Add up what the ranks found.

    Raises:
        RunError: if the loss is not finite.
    """
    loss, kl = (sum(values) for values in zip(*((part.loss, part.kl) for part in parts), strict=True))
    if not math.isfinite(loss + kl):
        raise RunError(f"the loss is {loss} and nothing was updated; lower algorithm.lr, or look at the rollouts")
    logprobs = {index: values for part in parts for index, values in part.logprobs.items()}
    count = sum(row.row.num_trained for row in rows)
    num_computed = sum(part.num_computed for part in parts)
    return Gradient(
        logprobs=[logprobs[index] for index in range(len(rows))],
        loss=loss,
        kl=kl if has_reference else None,
        entropy=sum(part.entropy for part in parts) / count,
        clipped_fraction=sum(part.clipped for part in parts) / count,
        padding_fraction=1.0 - sum(part.num_ids for part in parts) / num_computed,
        num_tokens=num_computed,
    )
