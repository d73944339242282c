"""Judging a solution: run it where the golds ran, and compare what both gave."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from envgym.sql.comparator import Mode, compare
from envgym.sql.gold import GRADING_CAPS, GoldQuery, GoldResult, run_gold, run_on_copy
from envgym.sql.pool import run_query
from envgym.sql.rules import GradingRules
from envgym.sql.table import Failure, Query, Table

# Where several golds are accepted, the status that comes first here counts.
GradeStatus = Literal["right", "undecided", "wrong", "too_large", "timeout", "memory", "denied", "error"]
GRADE_STATUSES: tuple[GradeStatus, ...] = get_args(GradeStatus)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grade:
    """What became of a solution.

    ``right``: it gives what one of the golds gives. ``wrong``: it gives something else. ``too_large``: it gives
    more than is compared. ``undecided``: the comparator gave up, and nobody knows. The
    others say how it failed to run.
    """

    status: GradeStatus

    @property
    def right(self) -> bool | None:
        """None where nobody knows."""
        return None if self.status == "undecided" else self.status == "right"

    @property
    def runs(self) -> bool:
        """Whether the solution gave a result, right or wrong."""
        return self.status in ("right", "wrong", "too_large", "undecided")


def grade(solution: str, golds: Sequence[str], database: Path, rules: GradingRules) -> Grade:
    """Judge a solution by the golds' results: it is right if it agrees with one of them on every database.

    Raises:
        BadGoldError: if a gold does not run.
        InfrastructureError: if a database cannot be read or a worker is lost.
    """

    @cache  # several golds share their databases
    def run(where: Path, rows: int) -> Table | Failure:
        caps = replace(GRADING_CAPS, rows=rows)
        return run_query(Query(path=str(where), sql=solution, seconds=rules.seconds, caps=caps, now=rules.now))

    exams = [_exam(GoldQuery(database=database, sql=gold, now=rules.now), rules) for gold in golds]
    statuses: list[GradeStatus] = [_sit(exam, rules, run) for exam in exams]
    return Grade(status=min(statuses, key=GRADE_STATUSES.index))


_Run = Callable[[Path, int], Table | Failure]


def _exam(gold: GoldQuery, rules: GradingRules) -> list[GoldResult]:
    """The gold's results that a solution has to give."""
    results = [run_gold(gold)]
    if rules.perturb:
        copy = run_on_copy(gold, rules)
        results += [copy.result] if copy else []
    return results


def _sit(exam: Sequence[GoldResult], rules: GradingRules, run: _Run) -> GradeStatus:
    """The status of a solution by one gold. The first database on which it is not right decides."""
    for gold in exam:
        answer = run(gold.database, _row_limit(gold, rules.comparator))
        if isinstance(answer, Failure):
            return answer.kind
        if not answer.is_whole:
            return "wrong" if answer.more_rows and rules.comparator != "set" else "too_large"
        comparison = compare(
            gold.table, answer, mode=rules.comparator, in_order=gold.in_order, tolerance=rules.tolerance
        )
        if not comparison.equal:
            return "undecided" if comparison.equal is None else "wrong"
    return "right"


def _row_limit(gold: GoldResult, mode: Mode) -> int:
    """One row more than the gold has is enough to differ, except for sets, where duplicates do not count."""
    return GRADING_CAPS.rows if mode == "set" else min(GRADING_CAPS.rows, len(gold.table.rows) + 1)
