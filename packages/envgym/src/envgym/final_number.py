r"""Reading the final number of a worked answer: what stands behind the last ``####``, or in the last ``\boxed{}``.

Numbers are compared as numbers. One line holds one number: a line that hedges between two is not an answer.
Everything is linear in the text and bounded in the size of a number.

    >>> final_number("6 * 7 = 42\n#### $42.00") == final_number("So it is \\boxed{42}") == 42
    True
"""

import re
from fractions import Fraction
from itertools import islice

MARKER = "####"
BOX = "\\boxed{"
MAX_LINE = 1000  # characters; whoever writes more behind the marker has not given a final number
MAX_DIGITS = 60
MAX_EXPONENT = 3  # characters, the sign included

_NUMBER = re.compile(r"\.?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[0-9]*\Z|[0-9]{1,3}(?:,[0-9]{2,3})*,[0-9]{3}\Z")  # 1,234,567 and 12,34,567
_PEER = re.compile(r"#### (-?[0-9.,]+)")
_SPELLINGS = str.maketrans(
    {"\u2212": "-", "\u2013": "-", "\u2010": "-", "\u2011": "-", "\u00a0": None, "\u2009": None, "\u202f": None}
)


def final_number(turn: str, marker: str = MARKER) -> Fraction | None:
    """The number that a turn ends up with, or None where it gives none that can be read.

    The last marker with anything behind it counts. A turn without one is searched for the last complete box.
    """
    line = _behind_last(turn, marker)
    if line is None:
        line = _in_last_box(turn)
    return None if line is None else read_number(line)


def strict_final_answer(turn: str) -> str | None:
    """What the field's usual grader reads: the digits behind the first ``####`` and one space, without commas.

    For parity only. It misses ``####42``, ``#### $42``, ``#### 42.0`` and a minus that is not a hyphen.
    """
    found = _PEER.search(turn)
    return found.group(1).replace(",", "") if found else None


def read_number(line: str) -> Fraction | None:
    r"""Read the one number of a line: currency, units, boxes and words around it do not matter.

    Behind the last ``=`` if there is one. None where there is no number, or more than one value.

        >>> [str(read_number(line)) for line in ("-$1,234.50", "12 apples", "6 * 7 = 42", "50%", "41 or 42")]
        ['-2469/2', '12', '42', '50', 'None']
    """
    if len(line) > MAX_LINE:
        return None
    line = line.rpartition("=")[2].translate(_SPELLINGS).replace("{,}", ",").replace("\\,", "")
    runs = [run for run in islice(_NUMBER.finditer(line), 9) if not _is_part_of_unit(line, run.start())]
    if len(runs) == 2 and line[runs[0].end() : runs[1].start()].strip() == "/":
        return _read_fraction(line, *runs)
    values = {_read_run(line, run) for run in runs}
    return values.pop() if len(values) == 1 else None


def _behind_last(turn: str, marker: str) -> str | None:
    """The first line behind the last marker that has anything behind it before the next marker."""
    end = len(turn)
    while (at := turn.rfind(marker, 0, end)) >= 0:
        text = turn[at + len(marker) : end].lstrip()
        if text:
            return text.partition("\n")[0]
        end = at
    return None


def _in_last_box(turn: str) -> str | None:
    at = turn.rfind(BOX)
    if at < 0:
        return None
    text = turn[at + len(BOX) : at + len(BOX) + MAX_LINE]
    depth = 1
    for index, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[:index]
    return None


def _is_part_of_unit(line: str, start: int) -> bool:
    """Whether the digits at ``start`` belong to a word or unit, as in ``m2`` and ``m^2``."""
    before = line[start - 1 : start]
    if before == "^":
        before = line[start - 2 : start - 1]
    return before.isalpha()


def _read_fraction(line: str, numerator: re.Match[str], denominator: re.Match[str]) -> Fraction | None:
    above, below = _read_run(line, numerator), _read_run(line, denominator)
    return above / below if above is not None and below else None


def _read_run(line: str, run: re.Match[str]) -> Fraction | None:
    digits, _, exponent = run.group().lower().partition("e")
    whole, _, decimals = digits.rstrip(".,").partition(".")
    is_written_right = _WHOLE.match(whole) and (decimals.isdigit() or not decimals)
    if not is_written_right or len(digits) > MAX_DIGITS or len(exponent) > MAX_EXPONENT:
        return None
    value = int(whole.replace(",", "") + decimals)
    power = int(exponent or 0) - len(decimals)
    signed = -value if _is_negative(line[: run.start()]) else value
    return Fraction(signed * 10**power) if power >= 0 else Fraction(signed, 10**-power)


def _is_negative(before: str) -> bool:
    """Whether the text before a number ends in its sign: ``-5``, ``-$5``, and ``- 5`` where no word precedes."""
    sign = before.rstrip("$€£\\ ")
    if not sign.endswith("-"):
        return False
    preceding = sign[:-1].rstrip()
    apart = before.endswith(" ")
    return not preceding or not (preceding[-1].isalnum() and (apart or sign[-2] != " "))
