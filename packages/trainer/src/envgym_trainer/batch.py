# pyright: strict
"""From rollouts to tensors: rows of ids, micro-batches of rows of like length, and the padded tensors of one.

Shapes: ``B`` rows, ``T`` ids of the longest row, ``N`` trained tokens over all rows of a micro-batch. What belongs
to a trained token is kept flat, ``[N]``, in the order of the rows. Padding, prompts and observations are therefore
not masked later on: they are not there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from envgym_generator.types import GeneratorOutput, Rollout, Segment


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One segment as a forward pass sees it.

    >>> Row(ids=(1, 2, 3, 5, 6), trained=(3, 4), rollout=0, segment=0).num_trained
    2
    """

    ids: tuple[int, ...]
    """[T] the prompt, then the completion."""
    trained: tuple[int, ...]
    """[N] where in ``ids`` the trained tokens are, ascending. Never 0: the first id is not predicted."""
    rollout: int
    """Which rollout of the output this came from."""
    segment: int
    """Which segment of that rollout."""

    @property
    def num_trained(self) -> int:
        """N, the number of trained tokens."""
        return len(self.trained)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """The ids of some rows, padded on the right, and where their trained tokens are.

    There is no attention mask and there are no position ids: with padding on the right of a causal model no real
    position attends to a padded one, and positions count from 0 in every row.
    """

    input_ids: torch.Tensor
    """[B, T] int64, 0 behind the end of a row."""
    rows: torch.Tensor
    """[N] int64, the row of each trained token."""
    columns: torch.Tensor
    """[N] int64, the position whose hidden state predicts the trained token: one before the token's own."""
    targets: torch.Tensor
    """[N] int64, the ids of the trained tokens."""
    num_ids: int
    """Ids that are not padding."""

    @property
    def num_computed(self) -> int:
        """B × T, the ids that a forward pass works on, padding included."""
        return self.input_ids.numel()

    def to(self, device: torch.device) -> "Tokens":
        """The same on another device."""
        return Tokens(
            input_ids=self.input_ids.to(device),
            rows=self.rows.to(device),
            columns=self.columns.to(device),
            targets=self.targets.to(device),
            num_ids=self.num_ids,
        )


def is_trained(rollout: Rollout) -> bool:
    """Whether a rollout enters statistics and loss: it did not fail, and no filter excludes it."""
    return rollout.status != "failed" and rollout.excluded_by is None


def make_rows(output: GeneratorOutput) -> list[Row]:
    """One row for each segment of a trained rollout that has a trained token, in order."""
    return [
        segment_row(segment, rollout=index, number=number)
        for index, rollout in enumerate(output.rollouts)
        if is_trained(rollout)
        for number, segment in enumerate(rollout.segments)
        if any(segment.loss_mask)
    ]


def segment_row(segment: Segment, *, rollout: int, number: int) -> Row:
    """The row of one segment.

    Raises:
        ValueError: if the segment has no prompt, so that nothing predicts its first id.
    """
    if not segment.prompt_ids:
        raise ValueError(
            f"segment {number} of rollout {rollout} has no prompt ids, so nothing predicts its first id"
        )
    return Row(
        ids=segment.prompt_ids + segment.completion_ids,
        trained=tuple(len(segment.prompt_ids) + index for index in trained_indices(segment)),
        rollout=rollout,
        segment=number,
    )


def trained_indices(segment: Segment) -> list[int]:
    """Indices into the completion of the tokens whose loss mask is true."""
    return [index for index, trained in enumerate(segment.loss_mask) if trained]


def split_by_length(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Group rows of like length, so that padding stays small.

    Rows are sorted by length (stable, so the result is a function of the lengths) and cut into groups of at most
    ``max_tokens`` padded ids; a row that is longer makes a group of its own.

    >>> split_by_length([5, 2, 6, 2], max_tokens=12)
    [[1, 3], [0, 2]]
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        # Ascending, so the row that would join is the longest and sets the padded width.
        if groups and (len(groups[-1]) + 1) * lengths[index] <= max_tokens:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def collate(rows: Sequence[Row]) -> Tokens:
    """Pad rows on the right and gather their trained tokens.

    >>> tokens = collate([Row(ids=(7, 8, 9), trained=(1, 2), rollout=0, segment=0),
    ...                   Row(ids=(7, 5), trained=(1,), rollout=1, segment=0)])
    >>> tokens.input_ids.tolist(), tokens.rows.tolist(), tokens.columns.tolist(), tokens.targets.tolist()
    ([[7, 8, 9], [7, 5, 0]], [0, 0, 1], [0, 1, 0], [8, 9, 5])
    """
    width = max(len(row.ids) for row in rows)
    return Tokens(
        input_ids=_int64([row.ids + (0,) * (width - len(row.ids)) for row in rows]),
        rows=_int64([index for index, row in enumerate(rows) for _ in row.trained]),
        columns=_int64([position - 1 for row in rows for position in row.trained]),
        targets=_int64([row.ids[position] for row in rows for position in row.trained]),
        num_ids=sum(len(row.ids) for row in rows),
    )


def _int64(values: Sequence[int] | Sequence[Sequence[int]]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)
