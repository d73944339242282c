"""Comparing short answers. Each pair is a fault that was reported of a grader, or one of its kind."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgym.rewards.answer import answer_tokens, cover_match, exact_match, f1


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("3.5", "35"),
        ("-5", "5"),
        ("\u22125", "5"),
        ("\u20135", "5"),
        ("-$5", "5"),
        ("- .5", "5"),
        ("C++", "C"),
        ("C#", "C"),
        ("C\u266f", "C"),
        ("O-", "O"),
        ("A+", "A"),
        ("18+", "18"),
        ("10\u00b2", "102"),
        ("5½", "51/2"),
        ("\u221a2", "2"),
        ("3/4", "34"),
        ("1,5", "15"),
        ("3.10", "3.1"),
        ("Vitamin A", "Vitamin"),
        ("Hepatitis A", "hepatitis"),
        ("A, B", "B"),
        ("A and B", "and B"),
        ("किताब", "कताब"),
        ("が", "か"),
        ("", "The"),
        ("!", "The"),
        ("", "?!"),
        ("?", "?!"),
        ("", ""),
        ("an", "a"),
        ("New York", "York New"),
    ],
)
def test_different_answers_differ(answer: str, gold: str):
    assert not exact_match(answer, [gold])
    assert not exact_match(gold, [answer])


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("Beyoncé", "Beyonce"),
        ("Beyonce\u0301", "Beyoncé"),
        ("Łódź", "lodz"),
        ("TROMSØ", "Tromso"),
        ("Straße", "strasse"),
        ("İstanbul", "istanbul"),
        ("ＡＢＣ", "abc"),
        ("Ёлка", "елка"),
        ("well-known", "well known"),
        ("well\u2011known", "well-known"),
        ("1990\u20131995", "1990-1995"),
        ("The Beatles", "beatles"),
        ("  a   dog. ", "dog"),
        ('"The Hobbit"', "the hobbit"),
        ("U.S.", "US"),
        ("J. R. R. Tolkien", "J.R.R. Tolkien"),
        ("O'Brien", "O\u2019Brien"),
        ("Tom & Jerry", "Tom and Jerry"),
        ("$1,000", "1000"),
        ("-1,234.5", "\u22121234.5"),
        (".5", "0.5"),
        ("1, 2, 3", "1,2,3"),
        ("½", "1/2"),
        ("5½", "5 1/2"),
        ("10²", "10^2"),
        ("km²", "km2"),
        ("snake_case", "snake case"),
        ("co\u00adoperate", "cooperate"),
        ("A.", "a"),
        ("The", "the"),
        ("?!", " ?! "),
        ("北京。", "北京"),
        ("B♭", "b flat"),
    ],
)
def test_spellings_of_one_answer_agree(answer: str, gold: str):
    assert exact_match(answer, [gold])
    assert exact_match(gold, [answer])


@pytest.mark.parametrize(
    ("answer", "gold", "equal"),
    [
        ("3.5", "35", True),
        ("C++", "c", True),
        ("", "The", True),
        ("Beyoncé", "Beyonce", False),
        ("well-known", "well known", False),
        ("Vitamin A", "vitamin", True),
        ("the  Cat's", "cats", True),
    ],
)
def test_squad_mode_compares_as_its_evaluation_does(answer: str, gold: str, equal: bool):
    assert exact_match(answer, [gold], mode="squad") is equal


def test_any_accepted_answer_will_do_and_none_is_matched_by_nothing():
    assert exact_match("Ada", ["Grace", "Ada"])
    assert not exact_match("Ada", [])
    assert f1("Ada", []) == 0.0
    assert not cover_match("Ada", [])


def test_f1_is_the_harmonic_mean_of_precision_and_recall_over_words():
    # Shared: 2 words. Precision 2/4, recall 2/3: 2·(1/2)(2/3)/(1/2 + 2/3) = 4/7.
    assert f1("red blue green black", ["red blue white"]) == pytest.approx(4 / 7)
    # A word counts as often as both have it: "b b b" and "b b" share 2, precision 2/3, recall 1.
    assert f1("b b b", ["b b"]) == pytest.approx(0.8)
    assert f1("x", ["y", "x z"]) == pytest.approx(2 / 3)
    assert f1("?!", ["?!"]) == 1.0
    assert f1("", ["The"], mode="squad") == 1.0


def test_cover_match_wants_the_words_in_a_row_and_whole():
    assert cover_match("It was Ada Lovelace, of course", ["Ada Lovelace"])
    assert not cover_match("Ada King Lovelace", ["Ada Lovelace"])
    assert not cover_match("scatter", ["cat"])
    assert not cover_match("13.5", ["3.5"])
    assert not cover_match("anything", ["?!"])
    assert not cover_match("", ["The"])


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=30))
def test_every_answer_that_says_something_matches_itself(text: str):
    assert exact_match(text, [text]) is bool(text.strip())
    assert 0.0 <= f1(text, ["Ada"]) <= 1.0


PIECES = st.lists(
    st.sampled_from(["a", "A", "an", "the", *".,-'$€+#²é", "1", "12", "000", "\u094d", "東", "\n"]), max_size=10
)


@settings(max_examples=300, deadline=None)
@given(PIECES.map("".join), PIECES.map(" ".join))
def test_comparison_is_symmetric_and_f1_and_cover_match_agree_with_it(first: str, second: str):
    same = exact_match(first, [second])
    assert same == exact_match(second, [first])
    if same:
        assert f1(first, [second]) == 1.0
        assert cover_match(first, [second])


@pytest.mark.parametrize(
    "unit", ["1", "1,", "1.", "a.", "a. ", "the ", "-", "- ", "$", "é", "\u0301", "'", " ", "東", "+", "½"]
)
@pytest.mark.parametrize("mode", ["default", "squad"])
def test_time_grows_no_faster_than_the_text(unit: str, mode):
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        start = time.process_time()
        answer_tokens(text, mode)
        return time.process_time() - start

    short = max(1e-3, min(seconds(20_000) for _ in range(3)))
    assert min(seconds(200_000) for _ in range(3)) < 20 * short
