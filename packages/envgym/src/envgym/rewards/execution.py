"""A reward for SQL that gives what the gold query gives."""

from collections.abc import Sequence
from pathlib import Path

from envgym.errors import BadGoldError
from envgym.rewards.answer_tag import find_answer
from envgym.rewards.outcome import Outcome, Status
from envgym.sql.comparator import TOLERANCE, check_mode
from envgym.sql.grade import Grade, grade
from envgym.sql.rules import GRADING_SECONDS, GradingRules
from envgym.sql.table import FROZEN_NOW

_STATUSES: dict[str, Status] = {"timeout": "timeout", "undecided": "timeout", "error": "unparseable"}


def execution_match_reward(
    ground_truth: str | Sequence[str],
    response: str,
    database: str | Path,
    solution_tag: str = "solution",
    comparator: str = "ordered",
    tolerance: float = TOLERANCE,
    perturb: bool = False,
    seed: int = 0,
    seconds: float = GRADING_SECONDS,
    now: str = FROZEN_NOW,
) -> Outcome:
    """Give 1.0 if the response's query and the gold query give the same result, and 0.0 if not.

    Args:
        ground_truth: the gold query, or several of which any one is accepted.
        response: the whole response; its last complete ``<solution>…</solution>`` counts.
        database: the SQLite file. It is only read.
        solution_tag: name of the tag around the query.
        comparator: ``ordered``, ``bag``, ``set``, ``permuted`` or ``subset``; see ``envgym.sql.comparator``.
        tolerance: how far floats may lie apart, relative to the larger of 1 and their size.
        perturb: whether the results must also be the same on a mutated copy of the database.
        seed: of the mutated copy.
        seconds: deadline of the response's query, on each database.
        now: what ``date('now')`` means, as ``YYYY-MM-DD HH:MM:SS``.

    Returns:
        The reward and a verdict, which is None where the comparator gave up (status ``timeout``).

    Raises:
        BadGoldError: if no ground truth is given or if it does not run.
        SetupError: if there is no such database, comparator or tag name.
        InfrastructureError: if the worker is lost.
    """
    rules = GradingRules(
        comparator=check_mode(comparator),
        tolerance=tolerance,
        seconds=seconds,
        perturb=perturb,
        seed=seed,
        now=now,
    )
    golds = (ground_truth,) if isinstance(ground_truth, str) else tuple(ground_truth)
    if not any(gold.strip() for gold in golds):
        raise BadGoldError("the ground truth holds no query")
    solution = find_answer(response, solution_tag)
    if solution is None:
        return Outcome(0.0, False, "no_answer")
    return outcome_of(grade(solution, golds, Path(database).resolve(), rules))


def outcome_of(judged: Grade) -> Outcome:
    """A grade as a reward: 1.0 for right, 0.0 for the rest."""
    return Outcome(float(judged.right is True), judged.right, _STATUSES.get(judged.status, "ok"))
