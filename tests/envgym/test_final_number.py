from fractions import Fraction

import pytest

from envgym import BadGoldError
from envgym.final_number import final_number, read_number, strict_final_answer
from envgym.rewards.final_number import final_number_reward

READ = {
    "#### 42": 42,
    "####42": 42,
    "#### $42": 42,
    "#### \\$42": 42,
    "#### 42.": 42,
    "#### 42.0": 42,
    "#### 42.50": Fraction(85, 2),
    "#### 1,234": 1234,
    "#### 12,34,567": 1234567,
    "#### 1{,}234": 1234,
    "#### 1\u202f234": 1234,
    "#### \u221242": -42,
    "#### -42": -42,
    "#### -$42": -42,
    "#### $-42": -42,
    "#### - 42": -42,
    "#### \\boxed{42}": 42,
    "#### \\boxed{-42}": -42,
    "#### **42**": 42,
    "#### 42 apples": 42,
    "#### 42 m^2": 42,
    "#### 42km": 42,
    "#### 50%": 50,
    "#### The answer is 42.": 42,
    "#### 6 * 7 = 42": 42,
    "#### 42 (42 in all)": 42,
    "#### 1/2": Fraction(1, 2),
    "#### .5": Fraction(1, 2),
    "#### 1e3": 1000,
    "####\n42": 42,
    "#### 42 ####": 42,
    "first #### 41\nno, #### 42": 42,
    "The answer is \\boxed{42}": 42,
    "\\boxed{41} or rather \\boxed{42}, which is 6 more than 36": 42,
    "\\boxed{\\text{42 apples}}": 42,
    "#### 42\n" + "and so on " * 1000: 42,
}

UNREAD = [
    "",
    "42",
    "The answer is 42.",
    "####",
    "#### none",
    "#### 41 or 42",
    "#### 40-42",
    "#### 7^2",
    "#### 6 * 7",
    "#### 12,34",
    "#### 1.2.3",
    "#### 1/0",
    "#### 1e999999999",
    "#### " + "9" * 10_000,
    "#### " + "word " * 1000 + "42",
    "\\boxed{42",
]


@pytest.mark.parametrize(("turn", "number"), READ.items())
def test_reads_the_number_however_it_is_written(turn: str, number: Fraction) -> None:
    assert final_number(turn) == number


@pytest.mark.parametrize("turn", UNREAD)
def test_reads_nothing_where_there_is_no_single_number(turn: str) -> None:
    assert final_number(turn) is None


def test_a_hyphen_between_words_and_number_is_a_dash() -> None:
    assert read_number("the answer - 42") == 42
    assert read_number("the answer -42") == -42


def test_strict_reads_what_the_usual_grader_reads() -> None:
    assert strict_final_answer("#### 41\n#### 42") == "41"
    assert strict_final_answer("#### 1,234") == "1234"
    assert strict_final_answer("#### 42.0") == "42.0"
    assert strict_final_answer("#### -42 apples") == "-42"
    for missed in ("#### $42", "####42", "#### \u221242", "#### \\boxed{42}", "\\boxed{42}"):
        assert strict_final_answer(missed) is None


def test_reward_pays_right_numbers_wrong_numbers_and_silence_differently() -> None:
    assert final_number_reward("1,200", "#### 1200.0", format_score=0.1) == (1.0, True)
    assert final_number_reward("1,200", "#### 1201", format_score=0.1) == (0.1, False)
    assert final_number_reward("1,200", "no idea", format_score=0.1) == (0.0, False)
    assert final_number_reward("1,200", "no idea").status == "no_answer"


def test_strict_reward_compares_text() -> None:
    assert final_number_reward("42", "#### 42", strict=True) == (1.0, True)
    assert final_number_reward("42", "#### 42.0", format_score=0.2, strict=True) == (0.2, False)
    assert final_number_reward("1,200", "#### 1,200", strict=True) == (1.0, True)


def test_marker_can_be_another_one() -> None:
    assert final_number_reward("42", "Answer: 42", marker="Answer:") == (1.0, True)


def test_a_gold_without_a_number_is_reported_and_not_scored() -> None:
    with pytest.raises(BadGoldError, match="not a number"):
        final_number_reward("forty-two", "#### 42")
