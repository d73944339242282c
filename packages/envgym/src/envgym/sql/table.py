"""What goes into a query worker and what comes out: ``Query``, ``Caps``, and ``Table`` or ``Failure``.

Standard library only, since the worker process imports it too.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Cell: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Cell, ...]
FailureKind = Literal["error", "denied", "timeout", "memory"]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)

FROZEN_NOW = "2026-01-01 00:00:00"
"""What ``date('now')`` means where no clock is given. Nothing a query returns depends on the real one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """How much of a result leaves the worker. Applied while rows are fetched, before anything is rendered."""

    rows: int
    columns: int
    cell_characters: int
    """A longer text or blob is cut to its beginning."""
    total_characters: int
    """Fetching stops behind the row that goes over it. A number counts as 8 characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """One statement to run on one database."""

    path: str
    """The database file, absolute."""
    sql: str
    seconds: float
    """Wall-clock deadline. A query that outlives it is interrupted, and killed where it cannot be interrupted."""
    caps: Caps
    now: str = FROZEN_NOW
    seed: int = 0
    """What ``random()`` draws from, afresh for each query."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A result: ``rows`` in the order in which SQLite gave them, duplicates kept."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    more_rows: bool = False
    """Whether rows followed that a cap held back."""
    hidden_columns: int = 0
    cut_cells: int = 0
    reads_clock: bool = False
    """Whether the query asked for the current time."""

    @property
    def is_whole(self) -> bool:
        """Whether no cap cut anything."""
        return not (self.more_rows or self.hidden_columns or self.cut_cells)


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A query that gave no result, through its own fault."""

    kind: FailureKind
    message: str
    """For the model's eyes: no host path in it."""
