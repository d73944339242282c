"""Looking at gold queries before anything is trained on them: which cannot run, are empty, or depend on chance."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from envgym.errors import BadGoldError
from envgym.messages import Task
from envgym.sql.gold import GoldQuery, depends_on_ties, run_for_grading, run_gold, run_on_copy
from envgym.sql.lexer import tokens
from envgym.sql.rules import GradingRules
from envgym.sql.source import TaskSource
from envgym.sql.table import Failure

Fault = Literal["fails", "too large", "slow", "empty", "ties", "clock", "constant"]

MEANINGS: dict[Fault, str] = {
    "fails": "the gold does not run",
    "too large": "the gold's result is too large to compare",
    "slow": "the gold takes more than half of a solution's deadline",
    "empty": "the gold's result is empty, so any empty result passes",
    "ties": "the gold's result depends on ties, on an order left open, or on random()",
    "clock": "the gold asks for the current time",
    "constant": "the gold's result is the same on every mutated copy, so a constant passes",
}
_CLOCK_WORDS = frozenset({"current_timestamp", "current_date", "current_time"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One fault of one gold query."""

    task_id: str
    db_id: str
    fault: Fault
    detail: str = ""
    """What SQLite said, or which gold of several it is."""

    def __str__(self) -> str:
        note = f" ({self.detail})" if self.detail else ""
        return f"{self.task_id} on {self.db_id}: {MEANINGS[self.fault]}{note}"


def preflight(source: TaskSource, rules: GradingRules) -> Iterator[Finding]:
    """Check the golds of all tasks of a source, in order, each task once.

    ``constant`` is looked for where the rules say ``perturb``.
    """
    for task in _each_once(chain.from_iterable(source.tasks.values())):
        yield from check_task(task, source, rules)


def _each_once(tasks: Iterable[Task]) -> Iterator[Task]:
    return iter({task.id: task for task in tasks}.values())


def check_task(task: Task, source: TaskSource, rules: GradingRules) -> Iterator[Finding]:
    """Check the golds of one task."""
    golds: list[str] = list(task.answer["golds"])
    for number, sql in enumerate(golds, start=1):
        gold = GoldQuery(database=source.database(task), sql=sql, now=rules.now)
        which = f"gold {number} of {len(golds)}" if len(golds) > 1 else ""
        for fault, detail in _faults(gold, rules):
            notes = ": ".join(note for note in (which, detail) if note)
            yield Finding(task_id=task.id, db_id=str(task.data["db_id"]), fault=fault, detail=notes)


def _faults(gold: GoldQuery, rules: GradingRules) -> Iterator[tuple[Fault, str]]:
    started = time.monotonic()
    try:
        result = run_gold(gold)
    except BadGoldError:
        yield _explain(gold)
        return
    if time.monotonic() - started > rules.seconds / 2:
        yield "slow", f"{time.monotonic() - started:.1f} s"
    if not result.table.rows:
        yield "empty", ""
    if depends_on_ties(gold, rules):
        yield "ties", ""
    if result.table.reads_clock or _names_clock(gold.sql):
        yield "clock", ""
    if rules.perturb:
        copy = run_on_copy(gold, rules)
        if copy is None or not copy.tells_apart:
            yield "constant", ""


def _explain(gold: GoldQuery) -> tuple[Fault, str]:
    answer = run_for_grading(gold)
    return ("fails", answer.message) if isinstance(answer, Failure) else ("too large", "")


def _names_clock(sql: str) -> bool:
    """Whether the clock is named, also where this run did not come to read it."""
    return any(token.value in _CLOCK_WORDS or token.value.lower() == "'now'" for token in tokens(sql))
