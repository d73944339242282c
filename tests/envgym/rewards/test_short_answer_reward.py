"""Exact match, F1 and cover match of tagged answers, in both modes."""

import pytest

from envgym.errors import BadGoldError, SetupError
from envgym.rewards import cover_match_reward, exact_match_reward, f1_reward


def tagged(answer: str) -> str:
    return f"<answer>{answer}</answer>"


@pytest.mark.parametrize(("gold", "answer"), [("35", "3.5"), ("5", "-5"), ("C", "C++")])
def test_default_mode_tells_apart_what_squad_does_not(gold: str, answer: str):
    assert exact_match_reward(gold, tagged(answer)) == (0.0, False)
    assert exact_match_reward(gold, tagged(answer), mode="squad") == (1.0, True)


@pytest.mark.parametrize(
    ("gold", "answer"), [("Beyoncé", "Beyonce"), ("well-known", "well known"), ("1,000", "1000")]
)
def test_default_mode_folds_what_means_the_same(gold: str, answer: str):
    assert exact_match_reward(gold, tagged(answer)) == (1.0, True)


def test_gold_without_words_is_not_matched_by_an_empty_answer():
    assert exact_match_reward("The", tagged("!")) == (0.0, False)
    assert exact_match_reward("The", tagged("")).status == "no_answer"


def test_any_of_several_golds_will_do():
    assert exact_match_reward(["x", "Ada Lovelace"], tagged("ada lovelace")) == (1.0, True)


def test_f1_is_the_overlap_of_words():
    # 2 of 3 words shared on either side: precision = recall = 2/3.
    reward, verdict = f1_reward("King of France", tagged("king of Spain"))
    assert (reward, verdict) == (pytest.approx(2 / 3), False)
    assert f1_reward("King of France", tagged("King of France")) == (1.0, True)


def test_cover_match_wants_whole_words_in_a_row():
    assert cover_match_reward("Ada Lovelace", tagged("It was Ada Lovelace.")) == (1.0, True)
    assert cover_match_reward("Ada Lovelace", tagged("It was Ada King Lovelace.")) == (0.0, False)
    assert cover_match_reward("cat", tagged("concatenate")) == (0.0, False)


@pytest.mark.parametrize("reward", [exact_match_reward, f1_reward, cover_match_reward])
def test_blank_gold_and_unknown_mode_are_refused(reward):
    with pytest.raises(BadGoldError):
        reward(" ", tagged("x"))
    with pytest.raises(SetupError, match="mode"):
        reward("x", tagged("x"), mode="strict")
