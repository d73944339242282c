"""Codes, and what a guess says about one. Knows nothing of environments."""

from functools import lru_cache
from itertools import product

import numpy as np


@lru_cache
def all_codes(length: int, symbols: int) -> tuple[str, ...]:
    """Every code of ``length`` digits from 1 to ``symbols``, always in the same shuffled order.

    >>> len(all_codes(3, 6))
    216
    """
    codes = ["".join(digits) for digits in product("123456789"[:symbols], repeat=length)]
    return tuple(codes[int(index)] for index in np.random.default_rng(0).permutation(len(codes)))


def compare(guess: str, code: str) -> tuple[int, int]:
    """How many digits of a guess are right and in place, and how many more are right but elsewhere.

    >>> compare("113", "312")  # the second 1 is in place; the 3 is elsewhere; of the first 1 there is no other
    (1, 1)
    """
    in_place = sum(mine == theirs for mine, theirs in zip(guess, code, strict=True))
    shared = sum(min(guess.count(digit), code.count(digit)) for digit in set(guess))
    return in_place, shared - in_place


def consistent(codes: list[str], guess: str, answer: tuple[int, int]) -> list[str]:
    """The codes that would have answered a guess in this way.

    >>> consistent(["11", "12", "22"], "12", (1, 0))
    ['11', '22']
    """
    return [code for code in codes if compare(guess, code) == answer]
