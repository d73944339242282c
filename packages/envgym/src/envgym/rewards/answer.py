"""Comparing short answers: exact match, F1 and cover match, each in two modes.

Mode ``default`` folds what a reader would not hold against an answer: case, accents, articles, punctuation,
hyphens against spaces, thousands separators, spaces between initials. It keeps what changes the meaning: a decimal
point, a sign, the ``++`` of C++, the A of Vitamin A. It does not read numbers: 3.50 is not 3.5 here, as version
3.10 is not version 3.1. Units and percent signs are not told apart from their absence.

Mode ``squad`` is the normalisation of SQuAD's evaluation (Rajpurkar et al. 2016), for comparison with published
numbers; there 3.5 equals 35 and an answer of punctuation alone equals any other.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from envgym.fold import CharacterTable, fold

Mode = Literal["default", "squad"]
MODES: tuple[Mode, ...] = ("default", "squad")

_SQUAD_DROPPED = str.maketrans("", "", string.punctuation)
_SQUAD_ARTICLE = re.compile(r"\b(a|an|the)\b")

_APOSTROPHES = "'`\u2018\u2019\u02bb\u02bc"
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"
_SPELLED = {"&": " and ", "_": " ", "\u266f": "#", "\u266d": " flat ", "\u2044": "/"}
# Powers and fractions behind a digit, which folding would make one number with it: 10² and 5½.
_ANOTHER_NUMBER = re.compile("(?<=[0-9])(?=[\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u00bc-\u00be\u2150-\u215f])")
_SIGNED_MONEY = re.compile(rf"(?<=[{_DASHES}])[$€£¥](?=[0-9.])")
_INITIALS = re.compile(r"(?<!\w)(?:[^\W\d]\.\s*){2,}")
# An article stands in front of another word: not the A of "Vitamin A", "A, B" or "A and B".
_ARTICLE = re.compile(r"(?<![^\s(\[\"])(?:a|an|the)\s+(?!(?:and|or)\b)(?=\S)")
# A number with decimals, or a grade or ion such as A-, or a word with the signs that some names end in.
_TOKEN = re.compile(
    r"(?:(?<![\w-])-(?=\.?\d))?"
    r"(?:\d+(?:[.,]\d+)+|(?<!\w)\.\d+|(?<![\w-])[^\W\d]{1,2}-(?=[\s,.;:)]|\Z)|[^\s!-/:-@\[-`{-~]+)[+#]*"
)
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def answer_tokens(text: str, mode: Mode = "default") -> list[str]:
    """The words that are compared.

    >>> answer_tokens("The well-known Beyoncé, -3.50 in C++")
    ['well', 'known', 'beyonce', '-3.50', 'in', 'c++']
    >>> answer_tokens("U.S. $1,000")
    ['us', '1000']
    """
    return _squad_tokens(text) if mode == "squad" else list(_default_tokens(text))


def _squad_tokens(text: str) -> list[str]:
    return _SQUAD_ARTICLE.sub(" ", text.lower().translate(_SQUAD_DROPPED)).split()


def _default_tokens(text: str) -> Iterator[str]:
    folded = fold(_SIGNED_MONEY.sub("", _ANOTHER_NUMBER.sub(" ", text))).translate(_CHARACTERS)
    joined = _INITIALS.sub(lambda match: "".join(filter(str.isalpha, match[0])) + " ", folded)
    for token in _TOKEN.findall(_ARTICLE.sub("", joined)):
        yield from _spell_number(token)


def _spell_number(token: str) -> Sequence[str]:
    """A token without thousands separators, and with a digit in front of its decimal point."""
    if _THOUSANDS.fullmatch(token):
        return (token.replace(",", ""),)
    if token.startswith((".", "-.")):
        return (token.replace(".", "0.", 1),)
    return token.split(",")


def _spell_character(character: str) -> str:
    """What stands for a character: ASCII and letters of any script as they are, other punctuation as a space."""
    if character in _SPELLED:
        return _SPELLED[character]
    if character in _APOSTROPHES:
        return ""
    if character in _DASHES:
        return "-"
    category = unicodedata.category(character)
    if (
        character.isascii() or category[0] in "LMN" or category == "Sm"
    ):  # Sm: a root or an infinity means something
        return character
    return "" if category == "Cf" else " "  # Cf: soft hyphens, joiners, byte order marks


_CHARACTERS = CharacterTable(_spell_character)


def exact_match(answer: str, golds: Sequence[str], mode: Mode = "default") -> bool:
    """Whether the answer is one of the accepted ones.

    In ``default`` mode a text without any word (``?!``, ``The``) is compared as it stands, white space and case
    aside, so that an empty answer matches nothing.

    >>> exact_match("3.5", ["35"]), exact_match("3.5", ["35"], mode="squad")
    (False, True)
    """
    return any(_equal(answer, gold, mode) for gold in golds)


def _equal(answer: str, gold: str, mode: Mode) -> bool:
    answer_words, gold_words = answer_tokens(answer, mode), answer_tokens(gold, mode)
    if mode == "default" and not (answer_words and gold_words):
        bare = answer.strip().casefold()
        return bool(bare) and bare == gold.strip().casefold()
    return answer_words == gold_words


def f1(answer: str, golds: Sequence[str], mode: Mode = "default") -> float:
    """The best token F1 against an accepted answer: harmonic mean of precision and recall, in [0, 1].

    >>> f1("the king of Spain", ["King of France"])
    0.6666666666666666
    """
    return max((_f1(answer, gold, mode) for gold in golds), default=0.0)


def _f1(answer: str, gold: str, mode: Mode) -> float:
    answer_words, gold_words = answer_tokens(answer, mode), answer_tokens(gold, mode)
    if not answer_words or not gold_words:
        return float(_equal(answer, gold, mode))
    shared = sum((Counter(answer_words) & Counter(gold_words)).values())
    return 2 * shared / (len(answer_words) + len(gold_words))


def cover_match(answer: str, golds: Sequence[str], mode: Mode = "default") -> bool:
    """Whether an accepted answer stands in the answer, word for word in a row.

    >>> cover_match("It was Ada Lovelace.", ["Ada Lovelace"])
    True
    """
    return any(_covers(answer, gold, mode) for gold in golds)


def _covers(answer: str, gold: str, mode: Mode) -> bool:
    answer_words, gold_words = answer_tokens(answer, mode), answer_tokens(gold, mode)
    if not gold_words:
        return _equal(answer, gold, mode)
    return f" {' '.join(gold_words)} " in f" {' '.join(answer_words)} "
