"""Comparing a predicted result with the gold one. Pure: tables in, a verdict out.

Five modes:

``ordered``
    Rows as multisets; in the gold's order where the gold asks for one. The default.
``bag``
    Rows as multisets, in any order.
``set``
    Rows as sets: order and duplicates are ignored.
``permuted``
    As ``ordered``, with the columns in any order.
``subset``
    As ``permuted``, and the prediction may have further columns.

Names of columns never count. Integers, texts and blobs are compared exactly, NULL equals NULL. A float equals any
number within ``tolerance``, relative to the larger of 1 and its size.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from envgym.errors import SetupError
from envgym.sql.table import Cell, Row, Table

Mode = Literal["ordered", "bag", "set", "permuted", "subset"]
MODES: tuple[Mode, ...] = get_args(Mode)
TOLERANCE = (
    1e-9  # a sum of 10⁵ floats in another order differs by less; one second in a Julian day does not matter
)
SEARCH_CELLS = 5_000_000  # most cells that the search for a permutation looks at: some seconds of work

Rows: TypeAlias = tuple[Row, ...]
_Column: TypeAlias = tuple[int, ...]
_Candidates: TypeAlias = dict[_Column, list[_Column]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """``equal`` is None where the search for a permutation was given up: nobody knows."""

    equal: bool | None
    status: Literal["ok", "timeout"] = "ok"


def check_mode(mode: str) -> Mode:
    """Return the mode, or raise ``SetupError`` with the known ones."""
    for known in MODES:
        if mode == known:
            return known
    raise SetupError(f"comparator is {mode!r}; it must be one of {', '.join(MODES)}")


def compare(
    gold: Table,
    predicted: Table,
    *,
    mode: Mode = "ordered",
    in_order: bool = False,
    tolerance: float = TOLERANCE,
    search_cells: int = SEARCH_CELLS,
) -> Comparison:
    """Compare two results.

    Args:
        gold: the whole result of the gold query.
        predicted: the whole result of the prediction.
        mode: see the module.
        in_order: whether the gold query has an ORDER BY of its own, so that the order of rows counts. ``bag`` and
            ``set`` ignore it.
        tolerance: how far floats may lie apart.
        search_cells: bound of the search for a permutation of columns; beyond it the status is ``timeout``.

    >>> gold = Table(columns=("n",), rows=((1,), (2,)))
    >>> turned = Table(columns=("n",), rows=((2,), (1,)))
    >>> compare(gold, turned).equal, compare(gold, turned, in_order=True).equal
    (True, False)
    """
    if mode != "set" and (len(gold.rows) != len(predicted.rows) or not _width_fits(gold, predicted, mode)):
        return Comparison(equal=False)
    wanted, offered = snap_floats(gold.rows, predicted.rows, tolerance)
    if mode == "set":
        return Comparison(equal=set(wanted) == set(offered))
    if mode in ("permuted", "subset"):
        return _compare_columns(wanted, offered, in_order, search_cells)
    if in_order and mode == "ordered":
        return Comparison(equal=wanted == offered)
    return Comparison(equal=Counter(wanted) == Counter(offered))


def _width_fits(gold: Table, predicted: Table, mode: Mode) -> bool:
    wanted, offered = len(gold.columns), len(predicted.columns)
    return wanted <= offered if mode == "subset" else wanted == offered


def snap_floats(gold: Rows, predicted: Rows, tolerance: float) -> tuple[Rows, Rows]:
    """Give numbers that lie within the tolerance one common value, so that rows compare exactly from here on.

    A float beside an integer becomes that integer. The others are visited in order of size: each joins the group
    of the smallest one that is near enough, or opens a group of its own.
    """
    floats = sorted(
        {cell for rows in (gold, predicted) for row in rows for cell in row if isinstance(cell, float)}
    )
    if not floats:
        return gold, predicted
    value_of: dict[float, Cell] = {}
    anchor = floats[0]
    for number in floats:
        anchor = anchor if _near(anchor, number, tolerance) else number
        value_of[number] = (
            _nearest_integer(number) if _near(_nearest_integer(number), number, tolerance) else anchor
        )
    return _replace(gold, value_of), _replace(predicted, value_of)


def _near(left: float, right: float, tolerance: float) -> bool:
    return left == right or abs(left - right) <= tolerance * max(1.0, abs(left), abs(right)) < math.inf


def _nearest_integer(number: float) -> float:
    return round(number) if math.isfinite(number) else number


def _replace(rows: Rows, value_of: Mapping[float, Cell]) -> Rows:
    return tuple(tuple(value_of[cell] if isinstance(cell, float) else cell for cell in row) for row in rows)


def _compare_columns(gold: Rows, predicted: Rows, in_order: bool, search_cells: int) -> Comparison:
    """Look for the gold's columns among the prediction's, which are as many or more.

    Columns that are equal cell by cell are interchangeable: they count as one, with the number of times it occurs.
    """
    wanted, offered = _encode_columns(gold, predicted)
    if in_order or not gold:
        return Comparison(equal=wanted <= offered)
    same_width = wanted.total() == offered.total()
    candidates = _alike(wanted, offered) if same_width else _often_enough(wanted, offered)
    if not all(candidates.values()):
        return Comparison(equal=False)
    try:
        return Comparison(equal=_Search(candidates, search_cells).succeeds(len(gold)))
    except _SearchGivenUp:
        return Comparison(equal=None, status="timeout")


def _encode_columns(gold: Rows, predicted: Rows) -> tuple["Counter[_Column]", "Counter[_Column]"]:
    """The columns of both tables and how often each occurs. Equal cells become equal integers."""
    code_of: dict[Cell, int] = {}

    def encode(rows: Rows) -> Counter[_Column]:
        columns = zip(*rows, strict=True)
        return Counter(tuple(code_of.setdefault(cell, len(code_of)) for cell in column) for column in columns)

    return encode(gold), encode(predicted)


def _often_enough(wanted: "Counter[_Column]", offered: "Counter[_Column]") -> _Candidates:
    """For each wanted column, the offered ones with the same cells in any order that occur as often or oftener."""
    by_cells: dict[_Column, list[_Column]] = defaultdict(list)
    for column in offered:
        by_cells[tuple(sorted(column))].append(column)
    return {
        column: [choice for choice in by_cells[tuple(sorted(column))] if count <= offered[choice]]
        for column, count in wanted.items()
    }


def _alike(wanted: "Counter[_Column]", offered: "Counter[_Column]") -> _Candidates:
    """For each wanted column, the offered ones of the same hue."""
    by_hue: dict[int, list[_Column]] = defaultdict(list)
    for column, hue in zip(offered, _hues(offered), strict=True):
        by_hue[hue].append(column)
    return {column: by_hue[hue] for column, hue in zip(wanted, _hues(wanted), strict=True)}


def _hues(columns: "Counter[_Column]") -> list[int]:
    """A number per column that depends neither on the order of rows nor on that of columns.

    At first it stands for the column's cells. Then rows and columns refine each other: a row is known by its cells
    and their columns' hues, a column by its cells and their rows'. Two tables that differ in both orders only give
    the same hues; where columns still share one, only a search can tell them apart.
    """
    hues = [hash((count, tuple(sorted(column)))) for column, count in columns.items()]
    distinct = 0
    while distinct < len(set(hues)) < len(hues):
        distinct = len(set(hues))
        rows = [hash(tuple(sorted(zip(cells, hues, strict=True)))) for cells in zip(*columns, strict=True)]
        hues = [
            hash((hue, *sorted(zip(column, rows, strict=True)))) for hue, column in zip(hues, columns, strict=True)
        ]
    return hues


class _SearchGivenUp(Exception):
    """The bound of the search was reached."""


class _Search:
    """Assigns an offered column to each wanted one, such that the chosen columns form the wanted rows.

    After each assignment the rows so far must agree as multisets. A row so far is a number: equal beginnings of
    rows have equal numbers, in both tables.
    """

    def __init__(self, candidates: _Candidates, cells: int) -> None:
        self._candidates = candidates
        self._order = sorted(candidates, key=lambda column: len(candidates[column]))
        self._cells_left = cells

    def succeeds(self, rows: int) -> bool:
        """Whether there is such an assignment.

        Raises:
            _SearchGivenUp: if that would take a look at more cells than allowed.
        """
        return self._assign(0, [0] * rows, [0] * rows)

    def _assign(self, position: int, wanted_rows: list[int], offered_rows: list[int]) -> bool:
        if position == len(self._order):
            return True
        column = self._order[position]
        for choice in self._candidates[column]:
            number_of: dict[tuple[int, int], int] = {}
            longer = self._append(wanted_rows, column, number_of)
            offered = self._append(offered_rows, choice, number_of)
            if Counter(longer) == Counter(offered) and self._assign(position + 1, longer, offered):
                return True
        return False

    def _append(self, rows: list[int], column: _Column, number_of: dict[tuple[int, int], int]) -> list[int]:
        self._cells_left -= len(rows)
        if self._cells_left < 0:
            raise _SearchGivenUp
        return [number_of.setdefault(pair, len(number_of)) for pair in zip(rows, column, strict=True)]
