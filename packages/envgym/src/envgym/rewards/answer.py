"""Comparing short answers: exact match, F1 and cover match, each in two modes.

Mode ``default`` folds what a reader would not hold against an answer: case, accents, articles, punctuation, hyphens
against spaces, thousands separators. It keeps what changes the meaning: a decimal point, a sign, the ``++`` of C++.
Mode ``squad`` is the normalisation of SQuAD's evaluation (Rajpurkar et al. 2016), for comparison with published
numbers; there 3.5 equals 35 and an answer of punctuation alone equals any other.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal

Mode = Literal["default", "squad"]
MODES: tuple[Mode, ...] = ("default", "squad")

_ARTICLES = frozenset({"a", "an", "the"})
_SQUAD_DROPPED = str.maketrans("", "", string.punctuation)
_UNWRITTEN = str.maketrans({"'": "", "\u2019": "", "\u2018": "", "\u2212": "-", "_": " "})
_INITIALS = re.compile(r"(?<!\w)((?:[^\W\d]\.){2,})")
# A number with sign and decimals, or a word with the signs that some names end in.
_TOKEN = re.compile(r"(?:(?<![\w-])-(?=[\d.]))?(?:\d+(?:[.,]\d+)+|(?<!\w)\.\d+|\w+[+#]*)")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def answer_tokens(text: str, mode: Mode = "default") -> list[str]:
    """The words that are compared.

    >>> answer_tokens("The well-known Beyoncé, -3.50 in C++")
    ['well', 'known', 'beyonce', '-3.50', 'in', 'c++']
    >>> answer_tokens("U.S. $1,000")
    ['us', '1000']
    """
    tokens = _squad_tokens(text) if mode == "squad" else _default_tokens(text)
    return [token for token in tokens if token not in _ARTICLES]


def _squad_tokens(text: str) -> list[str]:
    return re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_SQUAD_DROPPED)).split()


def _default_tokens(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    plain = "".join(letter for letter in folded if not unicodedata.combining(letter)).translate(_UNWRITTEN)
    joined = _INITIALS.sub(lambda match: match[1].replace(".", ""), plain)
    return [token.replace(",", "") if _THOUSANDS.fullmatch(token) else token for token in _TOKEN.findall(joined)]


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
