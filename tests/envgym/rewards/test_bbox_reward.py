"""Bounding boxes: bounds, scales and golds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envgym.errors import BadGoldError
from envgym.rewards import bbox_giou_reward


def score(gold: list[float], box: list[float], **kwargs: float) -> tuple[float, bool | None]:
    return bbox_giou_reward(str(gold), f"<answer>{box}</answer>", **kwargs)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e-3, 1.0, 1e9, 1e150])
def test_reward_does_not_depend_on_the_scale(scale: float):
    gold, box = [1 * scale, 1 * scale, 5 * scale, 5 * scale], [2 * scale, 2 * scale, 6 * scale, 6 * scale]
    assert score(gold, box)[0] == pytest.approx(9 / 23 - 2 / 25)


boxes = st.tuples(*[st.floats(-1e300, 1e300)] * 4).map(
    lambda n: [min(n[0], n[2]), min(n[1], n[3]), max(n[0], n[2]), max(n[1], n[3])]
)


@given(gold=boxes.filter(lambda box: box[0] < box[2] and box[1] < box[3]), box=boxes)
def test_reward_lies_between_minus_one_and_one(gold: list[float], box: list[float]):
    outcome = bbox_giou_reward(str(gold), f"<answer>{box}</answer>")
    assert -1.0 <= outcome.reward <= 1.0
    assert outcome.terms["giou"] <= outcome.terms["iou"]


def test_box_without_an_area_is_scored_as_one():
    # Outside of the unit square: hull 2 x 1, union 1, so the generalized IoU is -1/2.
    assert score([0, 0, 1, 1], [2, 0, 2, 0]) == (-0.5, False)


@pytest.mark.parametrize("number", ["inf", "1e9999", "nan", "0x10", "1_0", "", "1e1e1", "5" * 100])
def test_number_that_is_none_makes_the_box_malformed(number: str):
    outcome = bbox_giou_reward("[0,0,1,1]", f"<answer>[0,0,1,{number}]</answer>", malformed=-1.0)
    assert (outcome, outcome.status) == ((-1.0, False), "unparseable")


@pytest.mark.parametrize("gold", ["", "x", "[0,0,1]", "[1,0,0,1]", "[0,0,0,1]", "[0,0,inf,1]", "[0,0,1,nan]"])
@pytest.mark.parametrize("response", ["", "<answer>[0,0,1,1]</answer>"])
def test_gold_that_is_no_box_raises(gold: str, response: str):
    with pytest.raises(BadGoldError):
        bbox_giou_reward(gold, response)


@pytest.mark.parametrize(
    "kwargs", [{"malformed": -2.0}, {"malformed": float("nan")}, {"giou_penalty_thres": float("nan")}]
)
def test_parameter_out_of_range_is_refused(kwargs: dict[str, float]):
    with pytest.raises(ValueError, match=next(iter(kwargs))):
        score([0, 0, 1, 1], [0, 0, 1, 1], **kwargs)


def test_iou_of_exact_decimals_is_exact():
    # 0.1 x 0.2 of 0.2 x 0.2 is one half, which is not more than one half.
    assert score([0.1, 0.1, 0.3, 0.3], [0.1, 0.1, 0.2, 0.3]) == (0.5, False)
