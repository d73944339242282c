r"""Reading answers that are words, not formulas: a choice, a name of a figure, a yes or a no.

A grammar of formulas takes ``yes`` for the product of y, e and s, and so for ``sey`` too.
"""

import re
import unicodedata

_TEXT = re.compile(r"\\(?:text(?:bf|it|rm|normal)?|math(?:rm|bf|it)|mbox|operatorname)\s*\{([^{}]*)\}")
_LINE = re.compile(r"\\(?:overline|widehat|overrightarrow|overleftrightarrow)\s*\{\s*([^\W\d_]{2,})\s*\}")
_FIGURE = re.compile(r"\\(angle|triangle)(?![A-Za-z])")
_SEPARATOR = re.compile(r"[,;]|\b(?:and|or)\b", re.IGNORECASE)


def read_label(text: str) -> tuple[str, ...] | None:
    r"""Read letters without an operator as text: one label, or several between commas, sorted.

    Case and spacing do not matter. None if the text is no label: a formula, a number, a single Latin letter.

    >>> read_label(r"\text{No  Solution}"), read_label("C and AB"), read_label("x + y"), read_label(r"\sin x")
    (('nosolution',), ('ab', 'c'), None, None)
    """
    words = _FIGURE.sub(r"\1 ", _LINE.sub(r"\1", without_text_commands(text)))
    if not _is_label(words, whole_text=_TEXT.fullmatch(text) is not None):
        return None
    folded = unicodedata.normalize("NFKC", words).casefold()
    parts = ("".join(part.split()).strip(".!?:。") for part in _SEPARATOR.split(folded))
    return tuple(sorted(part for part in parts if part)) or (folded,)


def without_text_commands(text: str) -> str:
    r"""Replace ``\text{…}`` and its kin by what stands in them."""
    return " ".join(_TEXT.sub(r"\1", text).split())


def single_letter(text: str) -> str | None:
    """The letter of a choice such as ``A``, ``(A)`` or ``A)``, upper case; None if it is anything else."""
    letter = without_text_commands(text).removeprefix("(").removesuffix(")").strip()
    return letter.upper() if len(letter) == 1 and letter.isascii() and letter.isalpha() else None


def _is_label(words: str, whole_text: bool) -> bool:
    letters = [char for char in words if char.isalpha()]
    if not letters or (len(letters) == 1 and _is_variable(letters[0])):
        return False
    if "sqrt" in words.split():
        return False
    if whole_text:
        return not any(char.isdigit() for char in words)
    return all(char.isalpha() or char in " ,;'’" or unicodedata.category(char) in ("Mn", "Mc") for char in words)


def _is_variable(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith("GREEK")
