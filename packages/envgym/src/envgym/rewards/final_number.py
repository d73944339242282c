r"""A reward for the final number of a worked answer, as GSM8K asks for it: ``#### 42``."""

from fractions import Fraction
from functools import lru_cache

from envgym.errors import BadGoldError
from envgym.final_number import MARKER, final_number, read_number, strict_final_answer
from envgym.rewards.outcome import Outcome


def final_number_reward(
    ground_truth: str, response: str, format_score: float = 0.0, strict: bool = False, marker: str = MARKER
) -> Outcome:
    r"""Give 1.0 for the right number and ``format_score`` for another one in the right place.

    Args:
        ground_truth: the number; thousands separators and a unit are fine.
        response: the whole response. The number behind its last marker counts, or else the one in its last
            ``\boxed{}``, and it is compared as a number.
        format_score: what a wrong number earns.
        strict: read as the field's usual grader does, for parity: the digits behind the first ``####``, compared
            as text. ``marker`` has no effect then.
        marker: what stands before the number.

    Raises:
        BadGoldError: if the ground truth is not a number.

    >>> final_number_reward("1200", "So the answer is #### $1,200.")
    Outcome(1.0, True, status='ok', terms={})
    """
    if strict:
        digits = strict_final_answer(response)
        found, right = digits is not None, digits == ground_truth.replace(",", "")
    else:
        gold = _read_gold(ground_truth)
        number = final_number(response, marker)
        found, right = number is not None, number == gold
    if not found:
        return Outcome(0.0, False, "no_answer")
    return Outcome(1.0 if right else format_score, right)


@lru_cache(maxsize=10_000)
def _read_gold(ground_truth: str) -> Fraction:
    gold = read_number(ground_truth)
    if gold is None:
        raise BadGoldError(f"the ground truth {ground_truth[:80]!r} is not a number")
    return gold
