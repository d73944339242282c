"""What the gold query gives: on the database, and on a mutated copy that tells it from its own constant.

Each result is computed once per (database, query) and process, and kept.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from envgym.errors import BadGoldError
from envgym.sql.comparator import compare
from envgym.sql.lexer import has_top_level_order, shuffle_ties
from envgym.sql.perturb import STRENGTHS, mutated_copy
from envgym.sql.pool import run_query
from envgym.sql.table import FROZEN_NOW, Caps, Failure, Query, Table

GOLD_SECONDS = 30.0
GRADING_CAPS = Caps(rows=50_000, columns=200, cell_characters=2**24, total_characters=8_000_000)
TIE_SEEDS = (
    1,
    2,
    3,
    4,
)  # four orders of two tied rows are all alike once in eight golds; real ties have more rows

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldQuery:
    """A gold query on a database. Hashable: it is the key under which results are kept."""

    database: Path
    sql: str
    now: str = FROZEN_NOW


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldResult:
    """What a gold query gives on one database."""

    database: Path
    table: Table
    in_order: bool
    """Whether the gold asks for an order of its rows."""


class _Once(Generic[_Key, _Value]):
    """Computes a value per key once, also when several threads ask at the same time. Failures are not kept."""

    def __init__(self, compute: Callable[[_Key], _Value], size: int) -> None:
        self._compute = compute
        self._size = size
        self._lock = threading.Lock()
        self._futures: dict[_Key, Future[_Value]] = {}

    def __call__(self, key: _Key) -> _Value:
        with self._lock:
            known = self._futures.get(key)
            future = known or Future[_Value]()
            self._futures[key] = future
            if len(self._futures) > self._size:
                del self._futures[next(iter(self._futures))]
        if known is None:
            self._fill(key, future)
        return future.result()

    def _fill(self, key: _Key, future: "Future[_Value]") -> None:
        try:
            future.set_result(self._compute(key))
        except BaseException as error:  # those who wait must hear of it, whatever it is
            with self._lock:
                self._futures.pop(key, None)
            future.set_exception(error)


def run_gold(gold: GoldQuery) -> GoldResult:
    """The gold's whole result on its database.

    Raises:
        BadGoldError: if the query fails or its result is too large to compare. The message keeps the query secret.
    """
    return _run_once(gold)


def _run(gold: GoldQuery) -> GoldResult:
    answer = run_for_grading(gold)
    if isinstance(answer, Failure):
        raise BadGoldError(f"a gold query does not run on {gold.database} ({answer.kind}); preflight names it")
    if not answer.is_whole:
        raise BadGoldError(f"a gold query gives too large a result on {gold.database}; preflight names it")
    return GoldResult(database=gold.database, table=answer, in_order=has_top_level_order(gold.sql))


def run_for_grading(
    gold: GoldQuery, *, sql: str | None = None, seed: int = 0, reverse: bool = False
) -> Table | Failure:
    """Run the gold, or another statement in its place, with room for a whole result."""
    return run_query(
        Query(
            path=str(gold.database),
            sql=sql or gold.sql,
            seconds=GOLD_SECONDS,
            caps=GRADING_CAPS,
            now=gold.now,
            seed=seed,
            reverse_scan=reverse,
        )
    )


def depends_on_ties(gold: GoldQuery) -> bool:
    """Whether the gold's result depends on an order that the gold leaves open.

    The gold runs again with tied rows in random orders, and with its tables read backwards.

    Raises:
        BadGoldError: as ``run_gold``.
    """
    result = run_gold(gold)
    shuffled = shuffle_ties(gold.sql)
    again = [run_for_grading(gold, sql=shuffled, seed=seed) for seed in TIE_SEEDS] if shuffled else []
    again.append(run_for_grading(gold, reverse=True))
    tables = [table for table in again if isinstance(table, Table)]  # a statement too odd to rewrite tells nothing
    return any(not compare(result.table, table, in_order=result.in_order).equal for table in tables)


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyOfGold:
    """The gold's result on a mutated copy."""

    result: GoldResult
    tells_apart: bool
    """Whether it differs from the result on the original. Where it does not, no copy's does."""


def run_on_copy(gold: GoldQuery, seed: int = 0) -> CopyOfGold:
    """The gold's result on the first mutated copy that tells the gold from its own constant.

    A copy on which the gold depends on ties, although it does not on the original, would be unfair to other right
    queries and is passed over. Copies with a result that is not empty come before others.

    Raises:
        BadGoldError: as ``run_gold``.
    """
    return _run_on_copy_once((gold, seed))


def _run_on_copy(key: tuple[GoldQuery, int]) -> CopyOfGold:
    gold, seed = key
    original = run_gold(gold)
    tied = depends_on_ties(gold)
    empty: CopyOfGold | None = None
    for number in range(len(STRENGTHS)):
        copy = GoldQuery(database=mutated_copy(gold.database, number, seed), sql=gold.sql, now=gold.now)
        result = run_gold(copy)
        differs = not compare(original.table, result.table, in_order=original.in_order).equal
        if not differs or (not tied and depends_on_ties(copy)):
            continue
        found = CopyOfGold(result=result, tells_apart=True)
        if result.table.rows:
            return found
        empty = empty or found
    return empty or CopyOfGold(result=_run_on_first_copy(gold, seed), tells_apart=False)


def _run_on_first_copy(gold: GoldQuery, seed: int) -> GoldResult:
    return run_gold(GoldQuery(database=mutated_copy(gold.database, 0, seed), sql=gold.sql, now=gold.now))


_run_once = _Once(_run, size=8192)
_run_on_copy_once = _Once(_run_on_copy, size=4096)
