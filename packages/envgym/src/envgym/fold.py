"""Folding text for comparison: compatibility forms, case and accents, in any script."""

import re
import unicodedata
from collections.abc import Callable

# The marks that Latin, Greek and Cyrillic letters carry. Those of other scripts make another letter or a vowel.
_ACCENT = re.compile("[\u0300-\u036f]")
_PLAIN_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ħ": "h", "ı": "i"}
)


def fold(text: str) -> str:
    """Fold compatibility forms, case and accents.

    >>> fold("Łódź, BEYONCÉ, Straße")
    'lodz, beyonce, strasse'
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed)).translate(_PLAIN_LETTERS)


class CharacterTable(dict[int, str]):
    """A table for ``str.translate`` that is filled in as characters occur.

    >>> "a-b".translate(CharacterTable(lambda character: character if character.isalnum() else " "))
    'a b'
    """

    def __init__(self, replace: Callable[[str], str]) -> None:
        """``replace`` gives what stands for a character."""
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str:
        replacement = self[code] = self._replace(chr(code))
        return replacement
