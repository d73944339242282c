# pyright: strict
"""The parity gate: on the weights that sampled them, tokens must get the same log-probabilities in the trainer.

Where it does not, the two compute different policies, and the ratio that the loss is built on means nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from envgym_generator.types import GeneratorOutput, Segment, Turn
from envgym_trainer.batch import Row

NEIGHBOURS = 2
"""Tokens shown on either side of the one that differs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parity:
    """How far two sides' log-probabilities of the same tokens are apart."""

    max_abs_diff: float
    mean_abs_diff: float
    num_tokens: int
    first_divergent: str | None
    """The first token that is further apart than the threshold, in words; None where all are within."""


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
            total, largest, count = total + difference, max(largest, difference), count + 1
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
