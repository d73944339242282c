"""Scoring a bounding box by how well it covers the true one.

Generalized IoU: Rezatofighi et al. 2019, "Generalized Intersection over Union".
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from envgym.errors import BadGoldError
from envgym.rewards.answer_tag import find_answer
from envgym.rewards.outcome import Outcome

CORRECT_ABOVE = 0.5

# Three digits of exponent reach past any float and keep the exact arithmetic below cheap.
_COORDINATE = re.compile(r"[+-]?(?:[0-9]{1,64}(?:\.[0-9]{0,64})?|\.[0-9]{1,64})(?:[eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A box by its corners, ``left <= right`` and ``top <= bottom``, on any scale. Coordinates are exact."""

    left: Fraction
    top: Fraction
    right: Fraction
    bottom: Fraction

    @property
    def area(self) -> Fraction:
        """Width times height."""
        return (self.right - self.left) * (self.bottom - self.top)


def bbox_giou_reward(
    ground_truth: str,
    response: str,
    giou_penalty_thres: float = 10.0,
    answer_tag: str = "answer",
    malformed: float = 0.0,
) -> Outcome:
    """Score a tagged box ``[left, top, right, bottom]`` by its generalized IoU with the true one, in [-1, 1].

    Args:
        ground_truth: the true box, written the same way.
        response: the whole response.
        giou_penalty_thres: below this IoU the reward is the generalized IoU, from it on the plain IoU. The
            default is above every IoU, so the reward is always the generalized one.
        answer_tag: name of the tag that holds the box.
        malformed: the reward where there is no readable box. 0.0, the default, is what peers give, and it is more
            than a box that misses earns; -1.0 is the honest choice.

    Returns:
        The reward, the verdict ``reward > 0.5`` and the terms ``iou`` and ``giou``.

    Raises:
        BadGoldError: if the gold is not a box with a positive area.
        ValueError: if a parameter is out of its range.

    >>> bbox_giou_reward("[0, 0, 1, 1]", "<answer>[0, 0, 0.5, 1]</answer>")[:2]
    (0.5, False)
    """
    if math.isnan(giou_penalty_thres):
        raise ValueError("giou_penalty_thres is nan; it must be a number")
    if not -1.0 <= malformed <= 1.0:
        raise ValueError(f"malformed is {malformed}; it must be a reward in [-1, 1]")
    answer = find_answer(response, answer_tag)
    truth = read_box(ground_truth)
    if truth is None or truth.area == 0:
        raise BadGoldError(
            f"the ground truth {ground_truth[:80]!r} is not [left, top, right, bottom] with an area"
        )
    if answer is None:
        return Outcome(malformed, False, "no_answer")
    box = read_box(answer)
    if box is None:
        return Outcome(malformed, False, "unparseable")
    iou, giou = overlap(truth, box)
    reward = giou if iou < giou_penalty_thres else iou
    return Outcome(float(reward), reward > CORRECT_ABOVE, terms={"iou": float(iou), "giou": float(giou)})


def read_box(text: str) -> Box | None:
    """Read four numbers between commas, brackets aside; None if it is anything else or a side is negative."""
    parts = text.replace("[", "").replace("]", "").split(",", maxsplit=4)
    if len(parts) != 4:
        return None
    numbers = [Fraction(part.strip()) for part in parts if _COORDINATE.fullmatch(part.strip())]
    if len(numbers) != 4:
        return None
    left, top, right, bottom = numbers
    if left > right or top > bottom:
        return None
    return Box(left=left, top=top, right=right, bottom=bottom)


def overlap(one: Box, other: Box) -> tuple[Fraction, Fraction]:
    """IoU in [0, 1] and generalized IoU in [-1, 1] of two boxes, of which at least one has an area."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    shared = max(width, Fraction(0)) * max(height, Fraction(0))
    union = one.area + other.area - shared
    hull = Box(
        left=min(one.left, other.left),
        top=min(one.top, other.top),
        right=max(one.right, other.right),
        bottom=max(one.bottom, other.bottom),
    ).area
    iou = shared / union
    return iou, iou - (hull - union) / hull
