"""Combining rewards, the outcome that carries them, and finding them by name."""

import pickle
from functools import partial

import pytest

from envgym.errors import SetupError
from envgym.rewards import (
    CombinedReward,
    Outcome,
    as_outcome,
    bbox_giou_reward,
    combine_reward_functions,
    exact_answer_alphanumeric_reward,
    format_reward,
    load_reward,
    reward_names,
)

GOOD = "<think>t</think><answer>x</answer>"


def constant(ground_truth: str, response: str, reward: float = 0.0, verdict: bool | None = None):
    return reward, verdict


def combine(*members: tuple[float, bool | None]) -> CombinedReward:
    return combine_reward_functions([(partial(constant, reward=r, verdict=v), 1.0) for r, v in members])


def test_parts_are_kept_as_terms_before_their_weights():
    both = combine_reward_functions([(format_reward, 1), (exact_answer_alphanumeric_reward, 3)])
    assert both("y", GOOD).terms == {"format": 1.0, "exact_answer_alphanumeric": 0.0}


def test_equal_names_of_parts_are_numbered():
    assert set(combine((0.1, None), (0.2, None), (0.3, None))("", "").terms) == {
        "constant",
        "constant_2",
        "constant_3",
    }


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [((None, None), None), ((True, None), True), ((True, False), False), ((True, True), True)],
)
def test_verdict_is_that_of_all_who_vote(votes: tuple[bool | None, ...], verdict: bool | None):
    assert combine(*((0.0, vote) for vote in votes))("", "").verdict is verdict


def test_first_failed_status_is_that_of_the_whole():
    both = combine_reward_functions([(exact_answer_alphanumeric_reward, 1), (bbox_giou_reward, 1)])
    assert both("[0,0,1,1]", "<answer>[0]</answer>").status == "unparseable"


def test_combination_can_be_combined():
    inner = combine((1.0, True), (0.0, None))
    assert combine_reward_functions([(inner, 1), (format_reward, 1)])("", "").terms == {
        "combined": 0.5,
        "format": 0.0,
    }


@pytest.mark.parametrize("weights", [[], [-1.0], [0.0, 0.0], [float("nan")], [float("inf"), 1.0]])
def test_weights_that_make_no_mean_are_refused(weights: list[float]):
    with pytest.raises(ValueError, match=r"weight|empty"):
        combine_reward_functions([(format_reward, weight) for weight in weights])


def test_weights_near_the_largest_float_do_not_overflow():
    assert combine_reward_functions([(partial(constant, reward=1.0), 1.7e308)] * 3)(
        "", ""
    ).reward == pytest.approx(1)


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_reward_that_is_not_finite_stops_at_the_door(reward: float):
    with pytest.raises(ValueError, match="finite"):
        combine((reward, None))("", "")


def test_exception_of_a_member_is_not_swallowed():
    def broken(ground_truth: str, response: str) -> tuple[float, bool]:
        raise KeyError("missing")

    with pytest.raises(KeyError):
        combine_reward_functions([(broken, 1)])("", "")


def test_outcome_unpacks_compares_and_pickles_as_a_pair_with_more():
    outcome = Outcome(0.5, True, status="ok", terms={"iou": 0.5})
    reward, verdict = outcome
    assert (reward, verdict) == outcome == (0.5, True)
    copy = pickle.loads(pickle.dumps(outcome))
    assert (copy, copy.status, copy.terms) == (outcome, "ok", {"iou": 0.5})


def test_plain_pair_becomes_an_outcome():
    assert as_outcome((1, None)).status == "ok"


def test_combination_of_registered_rewards_pickles():
    members = [(load_reward("format"), 1.0), (load_reward("exact_alnum", {"answer_tag": "final"}), 1.0)]
    both = pickle.loads(pickle.dumps(combine_reward_functions(members)))
    assert both("x", "<final>x</final>").reward == 0.5


@pytest.mark.parametrize("name", reward_names())
def test_every_registered_reward_loads(name: str):
    assert callable(load_reward(name))


@pytest.mark.parametrize("path", ["envgym.rewards.format:format_reward", "envgym.rewards.format_reward"])
def test_any_function_loads_by_path(path: str):
    assert load_reward(path) is format_reward


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("formt", "registered ones are"),
        ("no.such.module:f", "cannot be imported"),
        ("envgym.rewards:nothing", "cannot be imported"),
        ("envgym.rewards:__all__", "not a function"),
        (":", "cannot be imported"),
    ],
)
def test_name_that_leads_nowhere_is_one_line_of_advice(name: str, message: str):
    with pytest.raises(SetupError, match=message) as caught:
        load_reward(name)
    assert "\n" not in str(caught.value)


def test_argument_that_the_reward_does_not_take_is_named():
    with pytest.raises(SetupError, match="takes no 'tagg'; it takes: think_tag, answer_tag"):
        load_reward("format", {"tagg": "x"})
