from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from envgym.argument_type import fits, spell


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (3, int),
        (3, float),
        (True, bool),
        (None, str | None),
        ("x", str | None),
        ("eval", Literal["train", "eval"]),
        ([{"name": "f1"}], Sequence[Mapping[str, Any]]),
        ((), Sequence[str]),
        ({"url": 1}, Mapping[str, Any]),
        ((1, "a"), tuple[int, str]),
        ("anything", Any),
        ("anything", object),
    ],
)
def test_a_value_of_the_declared_type_fits(value: object, hint: Any):
    assert fits(value, hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("3", int),
        (3.5, int),
        (True, int),
        (True, float),
        (1, bool),
        (None, str),
        (5, str | None),
        ("test", Literal["train", "eval"]),
        ("f1", Sequence[Mapping[str, Any]]),
        (["f1"], Sequence[Mapping[str, Any]]),
        ({"name": "f1"}, Sequence[Mapping[str, Any]]),
        ("url=1", Mapping[str, Any]),
    ],
)
def test_a_value_of_another_type_does_not_fit(value: object, hint: Any):
    assert not fits(value, hint)


def test_types_are_spelled_in_words():
    assert spell(Sequence[Mapping[str, Any]]) == "list of mapping"
    assert spell(float | None) == "float or null"
