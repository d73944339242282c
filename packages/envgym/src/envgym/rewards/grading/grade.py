"""Grading a mathematical answer against a gold."""

from functools import lru_cache

from envgym.errors import BadGoldError
from envgym.rewards.grading.label import single_letter
from envgym.rewards.grading.pool import GradingTimeoutError, WorkerLostError, shared_pool
from envgym.rewards.grading.protocol import Judgement
from envgym.rewards.grading.reading import Answer, Formula, compare, latex, read_answer, readings
from envgym.rewards.outcome import Outcome, verdict_outcome


def grade(ground_truth: str, answer: str | None) -> Outcome:
    r"""Judge an answer: reward 1.0 if it is the gold, else 0.0. None stands for no answer.

    Raises:
        BadGoldError: if the gold cannot be read, whatever the answer.
        InfrastructureError: if the grading processes cannot be started.

    >>> grade(r"\frac{1}{2}", "0.5")
    Outcome(1.0, True, status='ok', terms={})
    """
    gold = read_answer(ground_truth)
    if gold is None:
        raise BadGoldError(f"the ground truth {ground_truth[:80]!r} is blank or too long to be an answer")
    read = None if answer is None else read_answer(answer)
    decided = compare(gold, read) if read else None
    if read and decided is None:
        return _grade_formulas(gold, read)
    _require_readable(gold)
    if decided is not None:
        return verdict_outcome(decided)
    return Outcome(0.0, False, "no_answer" if answer is None else "unparseable")


def _grade_formulas(gold: Answer, answer: Answer) -> Outcome:
    try:
        judgement = shared_pool().ask([(latex(one), latex(other)) for one, other in readings(gold, answer)])
    except GradingTimeoutError:
        _require_readable(gold)
        return Outcome(0.0, False, "timeout")
    except WorkerLostError:
        judgement = "error"
    if judgement in ("bad_gold", "error"):
        _require_readable(gold)
    return _outcome(judgement)


def _outcome(judgement: Judgement) -> Outcome:
    if judgement in ("same", "different"):
        return verdict_outcome(judgement == "same")
    return Outcome(0.0, False, "unparseable" if judgement == "unparseable" else "error")


def _require_readable(gold: Answer) -> None:
    """Raise `BadGoldError` if the gold is a formula that the grammar does not know."""
    if isinstance(gold.body, Formula) and not single_letter(gold.text) and not _is_readable(gold.body.latex):
        raise BadGoldError(f"the ground truth {gold.text[:80]!r} cannot be read as a formula")


@lru_cache(maxsize=4096)
def _is_readable(formula: str) -> bool:
    try:
        return shared_pool().ask([(formula, None)]) == "same"
    except (GradingTimeoutError, WorkerLostError):
        return False
