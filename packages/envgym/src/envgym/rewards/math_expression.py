"""Comparing a tagged answer with the gold as mathematics."""

from envgym.rewards.answer_tag import find_answer
from envgym.rewards.grading.grade import grade
from envgym.rewards.outcome import Outcome


def math_expression_reward(ground_truth: str, response: str, tag: str = "answer") -> Outcome:
    r"""Give 1.0 if the last complete ``<tag>…</tag>`` holds an answer that is mathematically the gold.

    - Numbers are compared exactly, or to six decimals (and within one per cent) where one is written as a decimal.
    - A percent is its number and its fraction: ``50%`` is right for ``50`` and for ``0.5``.
    - Two or more letters without an operator are a label and compared as text, case and spaces aside.
    - Formulas are compared with computer algebra, in a process that is killed at its deadline.
    - Of a chain of equations the last side counts, if those sides that are numbers are equal.

    Args:
        ground_truth: LaTeX or plain text, in ``\boxed{}`` or not.
        response: the whole response.
        tag: name of the tag that holds the answer.

    Raises:
        BadGoldError: if the gold cannot be read.
        InfrastructureError: if the grading processes cannot be started.
        ValueError: if the tag name is malformed.

    >>> math_expression_reward(r"\frac{1}{2}", "<answer>50%</answer>").reward
    1.0
    """
    return grade(ground_truth, find_answer(response, tag))
