r"""Reading an answer as a number, a label or a formula, and comparing what needs no computer algebra."""

import re
from dataclasses import dataclass
from typing import TypeAlias

from envgym.rewards.grading.label import read_label, single_letter, without_text_commands
from envgym.rewards.grading.number import Number, read_number, same_number
from envgym.rewards.grading.text import plain_text

MAX_CHARACTERS = 2000
"""A longer answer is not read: the grammar's time grows faster than the text."""

_PERCENT = re.compile(
    r"(?P<rest>.*?\S)\s*(?:%|(?<![a-z])(?:percent|percentage|pct)|\\text\s*\{\s*(?:%|percent)\s*\})", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Formula:
    """LaTeX that only the grammar can read."""

    latex: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """Words, compared as text."""

    parts: tuple[str, ...]


Body: TypeAlias = Number | Label | Formula


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer as it was read."""

    text: str
    """In its plain form, with the percent sign if there was one."""
    body: Body
    is_percent: bool = False
    """Whether a percent sign stood behind the body."""


def read_answer(text: str) -> Answer | None:
    r"""Read an answer; None if it is blank or too long.

    >>> read_answer(r"The answer is \boxed{50\%}").body
    Number(value=Fraction(50, 1), is_decimal=False)
    """
    if len(text) > MAX_CHARACTERS:
        return None
    plain = plain_text(text)
    if not plain:
        return None
    percent = _PERCENT.fullmatch(plain)
    body = percent["rest"] if percent else plain
    return Answer(text=plain, body=_read_body(body), is_percent=percent is not None)


def _read_body(text: str) -> Body:
    if number := read_number(without_text_commands(text)):
        return number
    if parts := read_label(text):
        return Label(parts=parts)
    return Formula(latex=text)


def compare(gold: Answer, answer: Answer) -> bool | None:
    """Whether the answers are the same; None where the grammar has to read one of them."""
    if gold.text == answer.text:
        return True
    if isinstance(gold.body, Label) or isinstance(answer.body, Label):
        return _compare_labels(gold, answer)
    one, other = single_letter(gold.text), single_letter(answer.text)
    if one and other:
        return one == other
    numbers = [
        same_number(one, other)
        for one, other in readings(gold, answer)
        if isinstance(one, Number) and isinstance(other, Number)
    ]
    return any(numbers) if numbers else None


def _compare_labels(gold: Answer, answer: Answer) -> bool | None:
    """A label is equal to the same label only; a formula may still be the product of the letters of the answer."""
    if isinstance(gold.body, Formula) and not single_letter(gold.text):
        return None
    return gold.body == answer.body and gold.is_percent == answer.is_percent


def readings(gold: Answer, answer: Answer) -> list[tuple[Body, Body]]:
    """The pairs of which any may be equal: a percent is its number and its fraction."""
    pairs = [(gold.body, answer.body)]
    if gold.is_percent and not answer.is_percent:
        pairs.append((_hundredth(gold.body), answer.body))
    if answer.is_percent and not gold.is_percent:
        pairs.append((gold.body, _hundredth(answer.body)))
    return pairs


def _hundredth(body: Body) -> Body:
    if isinstance(body, Number):
        return Number(value=body.value / 100, is_decimal=body.is_decimal)
    sides, equals, last = latex(body).rpartition("=")
    return Formula(latex=rf"{sides}{equals}\frac{{{last}}}{{100}}")


def latex(body: Body) -> str:
    """What the grammar is given to read."""
    match body:
        case Number():
            return body.latex()
        case Label():
            return ", ".join(body.parts)
        case Formula():
            return body.latex
