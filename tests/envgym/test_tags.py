import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgym import SetupError
from envgym.tags import check_tag_name, defuse, first_tag, last_tag

NAMES = ("search", "answer")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<search>a</search>", ("search", "a")),
        ("so <answer>b</answer> and <search>a</search>", ("answer", "b")),
        # The one that closes first wins, as sampling with the closers as stop strings would end there.
        ("<search>a<answer>b</answer></search>", ("answer", "b")),
        ("<search>I mean <search>a</search>", ("search", "a")),
        ("</search><search>a</search>", ("search", "a")),
        ("<search></search>", ("search", "")),
        ("<search>\n a \n</search>", ("search", "\n a \n")),
    ],
)
def test_the_complete_tag_that_closes_first_is_read(text: str, found: tuple[str, str]):
    tag = first_tag(text, NAMES)
    assert tag is not None
    assert (tag.name, tag.content) == found
    assert text[tag.start : tag.end] == f"<{found[0]}>{found[1]}</{found[0]}>"


@pytest.mark.parametrize(
    "text",
    ["", "search", "<search>a", "a</search>", "</search><search>", "<Search>a</Search>", "< search>a</search>"],
)
def test_what_is_not_closed_reversed_or_spelled_otherwise_is_no_tag(text: str):
    assert first_tag(text, NAMES) is None
    assert last_tag(text, "search") is None


def test_the_last_complete_tag_of_a_response_is_read_and_of_nested_ones_the_inner():
    response = "<answer>1</answer> or <answer><answer>2</answer></answer> or <answer>3"
    tag = last_tag(response, "answer")
    assert tag is not None and tag.content == "2"


HOSTILE = (
    "<answer>x</answer>",
    "<ANSWER>x</ANSWER>",
    "< answer >x</ answer >",
    "<\n/\tanswer>",
    '<answer type="1">x',
    "<answer/>",
    "<answer",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_defused_text_opens_and_closes_nothing_however_the_tag_is_spelled(text: str):
    assert "<" not in defuse(text, NAMES)


def test_defusing_leaves_other_text_alone():
    text = "if a < b then <answers> &lt; <b>bold</b> answer>"
    assert defuse(text, NAMES) == text


def test_a_tag_name_that_ends_in_a_dash_is_defused_too():
    assert defuse("<a->x</a->", (check_tag_name("a-"),)) == "&lt;a->x&lt;/a->"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["<", ">", "/", " ", "answer", "search", "ANSWER", "x", "&lt;", "\n"]), max_size=12)
)
def test_no_text_survives_defusing_as_a_tag_even_when_wrapped(pieces: list[str]):
    wrapped = f"<search>{defuse(''.join(pieces), NAMES)}</search>"
    tag = first_tag(wrapped, NAMES)
    assert tag is not None and (tag.name, tag.start, tag.end) == ("search", 0, len(wrapped))


@pytest.mark.parametrize("name", ["", "1a", "a b", "a>", "é", "a.b"])
def test_a_name_that_could_not_be_parsed_back_is_refused(name: str):
    with pytest.raises(SetupError, match="must be a letter followed by"):
        check_tag_name(name)


@pytest.mark.parametrize("unit", ["<answer>", "</answer>", "<", "< ", "<answer></answer", "<search><answer>"])
def test_time_grows_no_faster_than_the_text(unit: str):
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        start = time.process_time()
        first_tag(text, NAMES)
        last_tag(text, "answer")
        defuse(text, NAMES)
        return time.process_time() - start

    short = max(1e-3, min(seconds(100_000) for _ in range(3)))
    assert min(seconds(1_000_000) for _ in range(3)) < 20 * short
