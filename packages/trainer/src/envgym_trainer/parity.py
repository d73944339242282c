# pyright: strict
"""The parity gate: on the weights that sampled them, tokens must get the same log-probabilities in the trainer.

Where it does not, the two compute different policies, and the ratio that the loss is built on means nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envgym_generator.types import GeneratorOutput, Segment, Turn
from envgym_trainer.batch import Row

NEIGHBOURS = 2
"""Tokens shown on either side of the one that differs."""


class ParitySection(Protocol):
    """What is read of the ``parity`` section; None is the default of the dtype."""

    max_abs_diff: float | None
    mean_abs_diff: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How far apart log-probabilities may be; infinite where there is no bound."""

    max_abs_diff: float
    mean_abs_diff: float

    @property
    def of_one_token(self) -> float:
        """What a token must be further apart than to be named as divergent."""
        return min(self.max_abs_diff, self.mean_abs_diff)

    def __str__(self) -> str:
        bounds = {"parity.max_abs_diff": self.max_abs_diff, "parity.mean_abs_diff": self.mean_abs_diff}
        return " and ".join(f"{key}={bound}" for key, bound in bounds.items() if bound < math.inf)


DEFAULT_LIMITS = {
    "float32": Limits(max_abs_diff=1e-4, mean_abs_diff=math.inf),
    "bfloat16": Limits(max_abs_diff=math.inf, mean_abs_diff=0.02),
}
"""By ``model.dtype``. In bfloat16 single tokens differ by whole percents, and only their mean says something."""


def limits_of(section: ParitySection, dtype: str) -> Limits:
    """The bounds of a config, with the dtype's own where none are set."""
    default = DEFAULT_LIMITS[dtype]
    return Limits(
        max_abs_diff=default.max_abs_diff if section.max_abs_diff is None else section.max_abs_diff,
        mean_abs_diff=default.mean_abs_diff if section.mean_abs_diff is None else section.mean_abs_diff,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Parity:
    """How far two sides' log-probabilities of the same tokens are apart."""

    max_abs_diff: float
    mean_abs_diff: float
    num_tokens: int
    first_divergent: str | None
    """The first token that is further apart than the threshold, in words; None where all are within."""

    def within(self, limits: Limits) -> bool:
        """Whether both bounds hold. A NaN is beyond any bound."""
        return self.max_abs_diff <= limits.max_abs_diff and self.mean_abs_diff <= limits.mean_abs_diff


def sampling_logprobs(segment: Segment, row: Row) -> tuple[float, ...] | None:
    """[N] the generator's log-probabilities of a row's trained tokens, or None where there are none."""
    if segment.rollout_logprobs is None:
        return None
    return tuple(segment.rollout_logprobs[index - len(segment.prompt_ids)] for index in row.trained)


def compare(
    output: GeneratorOutput, rows: Sequence[Row], logprobs: Sequence[Sequence[float]], threshold: float
) -> Parity:
    """Compare the trainer's log-probabilities with those in the output.

    Args:
        output: what the rows were made from.
        rows: those that were run forward, each with log-probabilities in the output.
        logprobs: for each row the trainer's, [N].
        threshold: largest difference that does not count as divergence.
    """
    total, largest, count = 0.0, 0.0, 0
    first: str | None = None
    for row, ours in sorted(zip(rows, logprobs, strict=True), key=lambda pair: (pair[0].rollout, pair[0].segment)):
        segment = output.rollouts[row.rollout].segments[row.segment]
        theirs = sampling_logprobs(segment, row) or ()
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            difference = abs(mine - other)
            total, count = total + difference, count + 1
            largest = difference if math.isnan(difference) else max(largest, difference)
            # Written so that a NaN is divergent too.
            if first is None and not difference <= threshold:
                first = describe_token(output, row, ours, theirs, index)
    mean = total / count if count else 0.0
    return Parity(max_abs_diff=largest, mean_abs_diff=mean, num_tokens=count, first_divergent=first)


def describe_token(
    output: GeneratorOutput, row: Row, ours: Sequence[float], theirs: Sequence[float], index: int
) -> str:
    """Say where a trained token is, what both sides say about it, and what stands beside it."""
    rollout = output.rollouts[row.rollout]
    segment = rollout.segments[row.segment]
    position = row.trained[index] - len(segment.prompt_ids)
    number, turn = turn_at(segment, position)
    beside = range(max(0, index - NEIGHBOURS), min(len(ours), index + NEIGHBOURS + 1))
    neighbours = ", ".join(f"{row.ids[row.trained[i]]} ({ours[i]:.4f} and {theirs[i]:.4f})" for i in beside)
    return (
        f"rollout {row.rollout} (task {rollout.task_id}), segment {row.segment}, turn {number}, token "
        f"{position - turn.start} of {turn.end - turn.start}: id {row.ids[row.trained[index]]} has "
        f"{ours[index]:.6f} in the trainer and {theirs[index]:.6f} in the generator; neighbours: {neighbours}"
    )


def turn_at(segment: Segment, position: int) -> tuple[int, Turn]:
    """The turn, and its number from 0, whose sampled ids hold a position of the completion."""
    for number, turn in enumerate(segment.turns):
        if turn.start <= position < turn.end:
            return number, turn
    raise ValueError(f"position {position} is trained and belongs to none of the {len(segment.turns)} turns")
