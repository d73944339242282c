r"""Reading plain numbers, and when two numbers are the same."""

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

DECIMALS = 6
"""Two numbers of which one is a decimal are compared rounded to this many places."""
RELATIVE_TOLERANCE = Fraction(1, 100)
"""And they must not differ by more than this share, or else all small numbers would be the same."""

_SIGN = r"(?P<sign>[+-]?)\s*"
_INTEGER = re.compile(_SIGN + r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+)")
_DECIMAL = re.compile(
    _SIGN
    + r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)\.(?P<decimals>[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_SCIENTIFIC = re.compile(_SIGN + r"(?P<digits>[0-9]+)[eE](?P<exponent>[+-]?[0-9]{1,3})")
_REPEATING = re.compile(
    _SIGN + r"(?P<digits>[0-9]*)\.(?P<decimals>[0-9]*)\\(?:overline|bar|dot)\s*\{(?P<repeated>[0-9]+)\}"
)
_RATIO = re.compile(
    _SIGN
    + r"(?:(?P<whole>[0-9]+)(?: (?=[0-9])| ?(?=\\)))?"
    + r"(?:(?P<top>[0-9]+) ?/ ?(?P<bottom>[0-9]+)"
    + r"|\\frac ?(?:\{ ?(?P<numerator>-?[0-9]+) ?\}|(?P<n>[0-9]))"
    + r" ?(?:\{ ?(?P<denominator>[0-9]+) ?\}|(?P<d>[0-9])))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Number:
    """A number as it was written: its exact value, and whether it is a decimal, which may be a rounded one."""

    value: Fraction
    is_decimal: bool = False

    def latex(self) -> str:
        r"""Write it for the grammar: an integer, a ``\frac`` or a plain decimal."""
        if self.is_decimal:
            return f"{Decimal(self.value.numerator) / Decimal(self.value.denominator):f}"
        if self.value.denominator == 1:
            return str(self.value.numerator)
        sign = "-" if self.value < 0 else ""
        return rf"{sign}\frac{{{abs(self.value.numerator)}}}{{{self.value.denominator}}}"


def read_number(text: str) -> Number | None:
    r"""Read an integer, decimal, fraction, mixed number or repeating decimal; None if it is anything else.

    >>> [str(read_number(text).value) for text in ("1,234", "2 1/3", r"-\frac{1}{2}", r"0.\overline{3}", "1e-7")]
    ['1234', '7/3', '-1/2', '1/3', '1/10000000']
    """
    if match := _INTEGER.fullmatch(text):
        return Number(value=_signed(match, Fraction(_digits(match))))
    if match := _DECIMAL.fullmatch(text):
        value = Fraction(f"{_digits(match)}.{match['decimals']}e{match['exponent'] or 0}")
        return Number(value=_signed(match, value), is_decimal=True)
    if match := _SCIENTIFIC.fullmatch(text):
        return Number(value=_signed(match, Fraction(f"{match['digits']}e{match['exponent']}")), is_decimal=True)
    if match := _REPEATING.fullmatch(text):
        return Number(value=_signed(match, _repeating_value(match)))
    return _read_ratio(text)


def _signed(match: re.Match[str], value: Fraction) -> Fraction:
    return -value if match["sign"] == "-" else value


def _digits(match: re.Match[str]) -> str:
    return match["digits"].replace(",", "").replace(" ", "") or "0"


def _repeating_value(match: re.Match[str]) -> Fraction:
    """The limit: 0.1(6) is 1/10 + 6/90."""
    decimals, repeated = match["decimals"], match["repeated"]
    shift = 10 ** len(decimals)
    head = Fraction(int(_digits(match) + decimals), shift)
    return head + Fraction(int(repeated), shift * (10 ** len(repeated) - 1))


def _read_ratio(text: str) -> Number | None:
    match = _RATIO.fullmatch(text)
    if match is None:
        return None
    top = int(match["top"] or match["numerator"] or match["n"])
    bottom = int(match["bottom"] or match["denominator"] or match["d"])
    if bottom == 0 or (match["whole"] and top < 0):
        return None
    return Number(value=_signed(match, int(match["whole"] or 0) + Fraction(top, bottom)))


def same_number(one: Number, other: Number) -> bool:
    """Compare exactly, or, where one is a decimal, as `same_decimal` does."""
    if one.is_decimal or other.is_decimal:
        return same_decimal(one.value, other.value)
    return one.value == other.value


def same_decimal(one: Fraction, other: Fraction) -> bool:
    """Whether two values agree when rounded to six places, and within one per cent.

    >>> same_decimal(Fraction(1, 3), Fraction("0.333333")), same_decimal(Fraction("1e-7"), Fraction("2e-7"))
    (True, False)
    """
    if one == other:
        return True
    close = abs(one - other) <= RELATIVE_TOLERANCE * max(abs(one), abs(other))
    return close and round(one, DECIMALS) == round(other, DECIMALS)
