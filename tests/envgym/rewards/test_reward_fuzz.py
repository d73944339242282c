"""No text breaks a reward: no exception but those promised, a finite reward, and time linear in the text."""

import math
import time
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envgym.errors import BadGoldError
from envgym.rewards import (
    Outcome,
    bbox_giou_reward,
    combine_reward_functions,
    cover_match_reward,
    exact_answer_alphanumeric_reward,
    exact_match_reward,
    f1_reward,
    final_number_reward,
    format_reward,
    geo3k_reward,
    math_expression_reward,
)
from envgym.rewards.grading.box import find_boxes
from envgym.rewards.grading.label import read_label
from envgym.rewards.grading.number import read_number
from envgym.rewards.grading.reading import MAX_CHARACTERS, compare, latex, read_answer, readings
from envgym.rewards.grading.text import plain_text

fuzz = partial(settings, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PIECES = [
    "<answer>", "</answer>", "<think>", "</think>", r"\boxed{", r"\frac", r"\sqrt", r"\text{", r"\pi", r"\infty",
    "{", "}", "[", "]", "(", ")", ",", ";", "=", "<", ">", "%", "^", "_", "+", "-", "/", "!", ".", "$", "\\",
    " ", "\n", "0", "1", "2", "10", "0.5", "x", "y", "i", "AB", "yes", "or", "and", "nan", "inf", "percent",
    "The answer is", "[0,0,1,1]", "√", "½", "²", "−", "°", "ß", "é", "\u0301", "\x00", "\ud800", "中",
]  # fmt: skip
texts = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
tagged = st.one_of(
    texts, texts.map(lambda text: f"<answer>{text}</answer>"), texts.map(lambda t: rf"</think>\boxed{{{t}}}")
)

LIGHT = {
    "format": format_reward,
    "exact_alnum": exact_answer_alphanumeric_reward,
    "bbox": bbox_giou_reward,
    "combined": combine_reward_functions([(format_reward, 1), (exact_answer_alphanumeric_reward, 2)]),
    "exact_match": exact_match_reward,
    "squad_exact_match": partial(exact_match_reward, mode="squad"),
    "f1": f1_reward,
    "cover_match": cover_match_reward,
    "final_number": final_number_reward,
    "strict_final_number": partial(final_number_reward, strict=True),
}


def check(reward: Callable[..., Outcome], gold: str, response: str) -> None:
    try:
        outcome = reward(gold, response)
    except BadGoldError:
        return
    assert math.isfinite(outcome.reward)
    assert outcome.verdict in (True, False, None)


@pytest.mark.parametrize("name", LIGHT)
@fuzz(max_examples=100)
@given(gold=st.one_of(texts, st.just("[0,0,1,1]")), response=tagged)
def test_any_text_has_a_finite_reward(name: str, gold: str, response: str):
    check(LIGHT[name], gold, response)


@pytest.mark.parametrize("reward", [math_expression_reward, geo3k_reward])
@fuzz(max_examples=60)
@given(gold=st.one_of(texts, st.sampled_from(["5", "x+1", "AB", "50%", "(1,2)"])), response=tagged)
def test_any_text_can_be_graded_as_mathematics(reward: Callable[..., Outcome], gold: str, response: str):
    check(reward, gold, response)


@fuzz(max_examples=300)
@given(gold=texts, answer=texts)
def test_any_text_can_be_read_and_compared(gold: str, answer: str):
    for parser in (find_boxes, plain_text, read_number, read_label):
        parser(answer)
    one, other = read_answer(gold), read_answer(answer)
    if one and other:
        assert compare(one, other) in (True, False, None)
        assert all(isinstance(latex(body), str) for pair in readings(one, other) for body in pair)
        assert compare(one, one) is True


UNITS = {
    "plain": "x",
    "openers": "<answer>",
    "closers": "</answer>",
    "pairs": "<answer>5</answer>",
    "thinking": r"</think>\boxed{",
    "boxes": r"\boxed{5}",
    "braces": "{",
    "box commands": "\\boxed ",
    "backslashes": "\\",
    "digits": "1",
    "commas": "1,",
    "spaces": " ",
    "dollars": "$5$",
}
REWARDS = {
    "math": partial(math_expression_reward, "5"),
    "geo3k": partial(geo3k_reward, "5"),
    "format": partial(format_reward, "5"),
    "exact_alnum": partial(exact_answer_alphanumeric_reward, "5"),
    "bbox": partial(bbox_giou_reward, "[0,0,1,1]"),
}
WORD_UNITS = {"initials": "a.", "signs": "1,-."}
WORD_REWARDS = {
    "exact_match": partial(exact_match_reward, "5"),
    "f1": partial(f1_reward, "5"),
    "cover_match": partial(cover_match_reward, "5"),
    "final_number": partial(final_number_reward, "5"),
}


def seconds(call: Callable[[str], object], text: str) -> float:
    """Of this thread's own time, which neighbours on the machine do not stretch."""
    start = time.thread_time()
    call(text)
    return time.thread_time() - start


GROWTH = [
    pytest.param(reward, unit, id=f"{name}-{kind}")
    for rewards, units in ((REWARDS, UNITS), (WORD_REWARDS, WORD_UNITS))
    for name, reward in rewards.items()
    for kind, unit in units.items()
]


@pytest.mark.parametrize(("reward", "unit"), GROWTH)
def test_time_grows_no_faster_than_the_text(reward: Callable[[str], Outcome], unit: str):
    short, long = (f"<answer>{unit * (size // len(unit))}</answer>" for size in (100_000, 1_000_000))
    reward(short)
    # A floor of 50 us keeps the clock's own noise out of calls that look at the text's end only.
    bound = 20 * max(50e-6, min(seconds(reward, short) for _ in range(3)))
    # The best of three long runs is below the bound if any one is.
    assert any(seconds(reward, long) <= bound for _ in range(3))


@pytest.mark.parametrize(
    "unit", ["(", "{", "1 ", "1,", "a ", r"\frac", r"\text{a}", "√", "**", "=", "answer is ", "% "]
)
@pytest.mark.parametrize("parser", [find_boxes, plain_text, read_number, read_label], ids=lambda f: f.__name__)
def test_parsers_read_the_longest_answer_in_no_time(parser: Callable[[str], object], unit: str):
    assert any(seconds(parser, unit * (MAX_CHARACTERS // len(unit))) < 0.05 for _ in range(3))
