"""The rewards that need no mathematics: format, exact alphanumeric, and the tags of geo3k."""

import pytest

from envgym.rewards import exact_answer_alphanumeric_reward, format_reward, geo3k_reward

GOOD = "<think>t</think><answer>a</answer>"


@pytest.mark.parametrize(
    "response",
    [
        pytest.param("<think></think><answer></answer>", id="empty"),
        pytest.param("<think> \n</think><answer>a</answer>", id="blank thinking"),
        pytest.param("<think>t</think><answer> </answer>", id="blank answer"),
        pytest.param("<answer>a</answer><think>t</think>", id="reversed"),
        pytest.param("<think>t<answer>a</think>b</answer>", id="interleaved"),
        pytest.param("<think>t<answer>a</answer></think>", id="answer inside thinking"),
        pytest.param("<answer><think>t</think>a</answer>", id="thinking inside the answer"),
        pytest.param(GOOD + GOOD, id="repeated"),
        pytest.param(GOOD + "<answer>b</answer>", id="answer repeated"),
        pytest.param("<think>" + GOOD, id="opener repeated"),
        pytest.param(GOOD + "</think>", id="closer repeated"),
        pytest.param("</think>t<think><answer>a</answer>", id="closed before opened"),
    ],
)
def test_abused_tags_do_not_earn_the_full_format_reward(response: str):
    outcome = format_reward("", response)
    assert 0.0 <= outcome.reward < 1.0
    assert outcome.verdict is None


def test_format_reward_names_its_parts():
    assert format_reward("", "t</think><answer>a</answer>").terms == {"think": 0.0, "answer": 0.75}


def test_equal_tags_are_refused():
    with pytest.raises(ValueError, match="differ"):
        format_reward("", "x", think_tag="answer")


def test_vowel_signs_tell_words_apart():
    assert exact_answer_alphanumeric_reward("कि", "<answer>का</answer>") == (0.0, False)
    assert exact_answer_alphanumeric_reward("कि", "<answer>कि।</answer>") == (1.0, True)


def test_gold_of_symbols_is_compared_as_it_stands():
    assert exact_answer_alphanumeric_reward("!!!", "<answer> !!! </answer>") == (1.0, True)
    assert exact_answer_alphanumeric_reward("!!!", "<answer>x</answer>") == (0.0, False)


def test_missing_answer_has_the_status_no_answer():
    assert exact_answer_alphanumeric_reward("x", "x").status == "no_answer"


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(r"<think></think>\boxed{5}", id="empty thinking"),
        pytest.param(r"</think><think>\boxed{5}", id="reversed"),
        pytest.param(r"a</think>b</think>\boxed{5}", id="closed twice"),
        pytest.param(r"<think>a<think>b</think>\boxed{5}", id="opened twice"),
    ],
)
def test_abused_thinking_earns_no_format_in_geo3k(response: str):
    assert geo3k_reward("5", response).terms == {"accuracy": 1.0, "format": 0.0}


def test_empty_box_earns_nothing():
    outcome = geo3k_reward("5", r"<think>t</think>\boxed{ }")
    assert (outcome.reward, outcome.status) == (0.0, "no_answer")


def test_unclosed_box_is_passed_over():
    assert geo3k_reward("5", r"<think>t</think>\boxed{5} \boxed{6").reward == 1.0


@pytest.mark.parametrize("format_score", [-0.1, 1.1, float("nan")])
def test_format_score_out_of_range_is_refused(format_score: float):
    with pytest.raises(ValueError, match="format_score"):
        geo3k_reward("5", "x", format_score=format_score)
