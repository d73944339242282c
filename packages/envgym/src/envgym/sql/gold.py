"""What the gold query gives: on the database, and on a mutated copy that tells it from its own constant.

Each result is computed once per (database, query) and process, and kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from envgym.errors import BadGoldError
from envgym.once import Once
from envgym.sql.comparator import compare
from envgym.sql.lexer import has_top_level_order, leaves_order_open, shuffle_rows, shuffle_ties
from envgym.sql.perturb import STRENGTHS, mutated_copy
from envgym.sql.pool import run_query
from envgym.sql.rules import GradingRules
from envgym.sql.schema import table_names
from envgym.sql.table import FROZEN_NOW, Caps, Failure, Query, Table

GOLD_SECONDS = 30.0
GRADING_CAPS = Caps(rows=50_000, columns=200, cell_characters=2**24, total_characters=8_000_000)
TIE_SECONDS = 5.0
SHUFFLED_BYTES = 8 * 2**20  # the rows of a larger database are not shuffled: it takes seconds each time
TIE_SEEDS = (1, 2, 3, 4)  # two tied rows come out alike four times in one case of eight


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
    gold: GoldQuery, *, sql: str | None = None, seed: int = 0, seconds: float = GOLD_SECONDS
) -> Table | Failure:
    """Run the gold, or another statement in its place, with room for a whole result."""
    path, text = str(gold.database), sql or gold.sql
    return run_query(Query(path=path, sql=text, seconds=seconds, caps=GRADING_CAPS, now=gold.now, seed=seed))


def depends_on_ties(gold: GoldQuery, rules: GradingRules) -> bool:
    """Whether the gold's result depends on an order that the gold leaves open, or on ``random()``.

    The gold runs again, several times, with tied rows and the rows of its tables in random orders.

    Raises:
        BadGoldError: as ``run_gold``.
    """
    result = run_gold(gold)
    if not leaves_order_open(gold.sql):
        return False
    return not all(_agree(result, table, rules) for table in _shuffled_results(gold))


def _shuffled_results(gold: GoldQuery) -> Iterator[Table]:
    """What the gold gives with as much left to chance as runs: some statements are too odd to rewrite."""
    is_small = gold.database.stat().st_size <= SHUFFLED_BYTES
    tables = table_names(gold.database) if is_small else ()
    ties = shuffle_ties(gold.sql)
    variants = (shuffle_rows(ties, tables), shuffle_rows(gold.sql, tables), ties, gold.sql)
    first, *seeds = TIE_SEEDS
    for sql in variants:
        answer = run_for_grading(gold, sql=sql, seed=first, seconds=TIE_SECONDS)
        if isinstance(answer, Table):
            yield answer
            more = (run_for_grading(gold, sql=sql, seed=seed, seconds=TIE_SECONDS) for seed in seeds)
            yield from (answer for answer in more if isinstance(answer, Table))
            return


def _agree(gold: GoldResult, table: Table, rules: GradingRules) -> bool:
    """Whether a result passes for the gold's. Where the comparator gives up, it may."""
    comparison = compare(
        gold.table, table, mode=rules.comparator, in_order=gold.in_order, tolerance=rules.tolerance
    )
    return comparison.equal is not False


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyOfGold:
    """The gold's result on a mutated copy."""

    result: GoldResult
    tells_apart: bool
    """Whether it differs from the result on the original. Where it does not, no copy's does."""


def run_on_copy(gold: GoldQuery, rules: GradingRules) -> CopyOfGold | None:
    """The gold's result on the first mutated copy that tells the gold from its own constant.

    A copy on which the gold depends on ties, although it does not on the original, would be unfair to other right
    queries and is passed over. Copies with a result that is not empty come before others, and both before copies
    that tell nothing apart.

    Returns:
        None where the gold fails, or comes to depend on ties, on every copy.

    Raises:
        BadGoldError: if the gold fails on the original.
    """
    return _run_on_copy_once((gold, rules))


def _run_on_copy(key: tuple[GoldQuery, GradingRules]) -> CopyOfGold | None:
    gold, rules = key
    original = run_gold(gold)
    empty: CopyOfGold | None = None
    same: CopyOfGold | None = None
    for result in _fair_results(gold, rules):
        tells_apart = not _agree(original, result.table, rules)
        found = CopyOfGold(result=result, tells_apart=tells_apart)
        if tells_apart and result.table.rows:
            return found
        if tells_apart:
            empty = empty or found
        else:
            same = same or found
    return empty or same


def _fair_results(gold: GoldQuery, rules: GradingRules) -> Iterator[GoldResult]:
    """The gold's results on those copies where it runs and does not come to depend on ties."""
    tied = depends_on_ties(gold, rules)
    for number in range(len(STRENGTHS)):
        copy = replace(gold, database=mutated_copy(gold.database, number, rules.seed))
        try:
            result = run_gold(copy)
        except BadGoldError:
            continue
        if tied or not depends_on_ties(copy, rules):
            yield result


_run_once = Once(_run, size=8192)
_run_on_copy_once = Once(_run_on_copy, size=4096)
