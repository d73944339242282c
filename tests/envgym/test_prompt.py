import pytest

from envgym import SetupError
from envgym.prompt import fill, load_prompt


def test_text_with_the_field_is_the_prompt_itself():
    assert load_prompt("Say {question}") == "Say {question}"


def test_anything_else_names_a_file(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("From a file: {question}")
    assert load_prompt(str(path)) == "From a file: {question}"


def test_what_is_neither_is_refused(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("no field")
    for wrong, message in (
        (str(path), "lacks the field"),
        ("no such file", "neither a file"),
        ("two\nlines", "neither"),
    ):
        with pytest.raises(SetupError, match=message):
            load_prompt(wrong)


def test_only_known_fields_are_filled_and_values_are_left_alone():
    assert fill("{a} {b} {} {0} {A}", {"a": "{b}", "b": 2}) == "{b} 2 {} {0} {A}"
