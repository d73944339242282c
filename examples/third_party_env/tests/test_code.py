"""Codes and guesses."""

from itertools import product

import pytest
from codebreaker.code import all_codes, compare


@pytest.mark.parametrize(
    ("guess", "code", "answer"),
    [
        ("123", "123", (3, 0)),
        ("123", "231", (0, 3)),
        ("111", "123", (1, 0)),
        ("112", "211", (1, 2)),
        ("456", "123", (0, 0)),
    ],
)
def test_digit_of_the_code_is_counted_once(guess: str, code: str, answer: tuple[int, int]) -> None:
    assert compare(guess, code) == answer


def test_comparing_is_symmetric() -> None:
    codes = all_codes(2, 4)

    assert all(compare(one, other) == compare(other, one) for one, other in product(codes, codes))


def test_order_of_codes_is_the_same_in_every_process_and_not_sorted() -> None:
    assert all_codes(2, 3) == ("22", "23", "13", "31", "21", "33", "32", "11", "12")
