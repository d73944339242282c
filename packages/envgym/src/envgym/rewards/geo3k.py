"""The reward of the Geometry3K recipes: a boxed answer after thinking."""

from envgym.rewards.grading.box import Box, find_boxes
from envgym.rewards.grading.grade import grade
from envgym.rewards.outcome import Outcome


def geo3k_reward(ground_truth: str, response: str, format_score: float = 0.1) -> Outcome:
    r"""Weigh a right ``\boxed{}`` answer, the last one, with the form of the response.

    The form is right if thinking is closed by one ``</think>`` (opened in the response or in the prompt), is not
    an empty pair, and the last box, which is not empty, comes after it.

    Args:
        ground_truth: LaTeX or plain text, in ``\boxed{}`` or not.
        response: the whole response.
        format_score: share of the form in the reward, in [0, 1].

    Returns:
        ``(1 - format_score) * accuracy + format_score * format``, with these two as terms.

    Raises:
        BadGoldError: if the gold cannot be read.
        InfrastructureError: if the grading processes cannot be started.
        ValueError: if ``format_score`` is out of its range.

    >>> geo3k_reward("5", r"<think>2 + 3</think> \boxed{5}").reward
    1.0
    """
    if not 0.0 <= format_score <= 1.0:
        raise ValueError(f"format_score is {format_score}; it must be in [0, 1]")
    box = max(find_boxes(response), key=lambda box: box.start, default=None)
    outcome = grade(ground_truth, (box.content.strip() or None) if box else None)
    terms = {"accuracy": outcome.reward, "format": float(_is_well_formed(response, box))}
    reward = (1.0 - format_score) * terms["accuracy"] + format_score * terms["format"]
    return Outcome(reward, outcome.verdict, outcome.status, terms)


def _is_well_formed(response: str, box: Box | None) -> bool:
    if box is None or not box.content.strip():
        return False
    if response.count("</think>") != 1 or response.count("<think>") > 1:
        return False
    thinking, _, _ = response.partition("</think>")
    opened, _, thoughts = thinking.partition("<think>")
    is_opened = "<think>" in response
    is_reversed_or_empty = is_opened and (len(opened) == len(thinking) or not thoughts.strip())
    return not is_reversed_or_empty and box.start > len(thinking)
