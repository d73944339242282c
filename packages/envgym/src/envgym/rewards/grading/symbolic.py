r"""Reading LaTeX into computer algebra and comparing what came out. Loaded in the grading processes only.

The grammar is latex2sympy2's; relations, and sets of different kinds, are compared by math-verify. Scalars and
their lists are compared here: math-verify takes any two numbers below 1e-15 for the same.
"""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any, TypeAlias

from envgym.rewards.grading.number import same_decimal
from envgym.rewards.grading.protocol import Judgement, Readings

# These libraries are typed in part only, so their objects are Any here.
sympy: Any = import_module("sympy")
grammar: Any = import_module("latex2sympy2_extended")
grader: Any = import_module("math_verify.grader")

DIGITS = 50
"""Significant digits to which exact numbers are evaluated."""
AGREEING_DIGITS = 40
"""Exact numbers that agree to so many digits are taken for the same."""
CHAIN_TOLERANCE = Fraction(1, 20)
"""How far a decimal in a chain of equations may be from its exact value: ``1/3 = 0.33`` is no lie."""

_EQUALS = re.compile(r"(?<![\\<>!:])=")
_SEVERAL = re.compile(r"[,;&]|\\begin|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
_TEXT_OR_COMMAND = re.compile(r"\\(?:text|mathrm|mbox)\s*\{[^{}]*\}|\\[A-Za-z]+")
_BARE_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_QUANTITY = re.compile(r"[0-9][0-9.,/]*(?P<space> ?)[A-Za-z][A-Za-z ]*")
_TWO_NUMBERS = re.compile(r"[0-9]\s+[0-9]")

Value: TypeAlias = tuple[Fraction, Fraction]
"""The real and the imaginary part of a constant."""


class UnreadableError(ValueError):
    """The text is not a formula that the grammar knows, or has no value."""


def judge(readings: Readings) -> Judgement:
    r"""Compare the readings of a gold and an answer, both LaTeX; one equal pair is enough. None is equal.

    >>> judge([("x^2-1", "(x-1)(x+1)")]), judge([("5", "4=5")]), judge([("\\frac{", "5")])
    ('same', 'different', 'bad_gold')
    """
    try:
        gold, _ = readings[0]
        read_formula(gold, units=_may_have_unit(gold, attached=False))
    except UnreadableError:
        return "bad_gold"
    try:
        same = any(answer is None or _same_text(gold, answer) for gold, answer in readings)
    except UnreadableError:
        return "unparseable"
    return "same" if same else "different"


def _same_text(gold: str, answer: str) -> bool:
    """Compare after reading; of an equation that answers a value, or asks for one, only the last side counts."""
    units = _may_have_unit(gold, attached=False)
    answer_units = units and _may_have_unit(answer, attached=True)
    gold_sides, answer_sides = _sides(gold), _sides(answer)
    if len(answer_sides) > 1:
        if not _is_true_chain(answer_sides):
            return False
        if len(gold_sides) == 1:
            answer = answer_sides[-1]
    elif len(gold_sides) > 1 and _is_name(gold_sides[0]):
        gold = gold_sides[-1]
    return same(read_formula(gold, units), read_formula(answer, answer_units))


def read_formula(latex: str, units: bool = False) -> Any:
    """Read LaTeX into a sympy object.

    Args:
        latex: the formula, without a box around it.
        units: whether a trailing unit is dropped.

    Raises:
        UnreadableError: if the grammar does not know it, or its value is undefined, such as 1/0.
    """
    if _TWO_NUMBERS.search(latex):
        # The grammar adds numbers that only a space separates.
        raise UnreadableError("two numbers without an operator between them")
    rules = grammar.NormalizationConfig(units=units, malformed_operators=True, nits=True, boxed="none")
    normal = grammar.normalize_latex(latex, rules)
    is_real = not grader.should_treat_as_complex(normal)
    try:
        formula = grammar.latex2sympy(normal, is_real=is_real, normalization_config=None)
        formula = _with_imaginary_unit(formula)
        undefined = formula.has(sympy.nan, sympy.zoo)
    except Exception as error:  # the grammar raises Exception itself, and whatever sympy makes of a wrong term
        raise UnreadableError(str(error)) from error
    if undefined:
        raise UnreadableError("undefined value")
    return formula


def _with_imaginary_unit(formula: Any) -> Any:
    """Read ``i`` as the imaginary unit, except where there is an order, which complex numbers do not have."""
    if formula.has(sympy.core.relational.Relational):
        return formula
    return formula.xreplace({symbol: sympy.I for symbol in formula.free_symbols if symbol.name == "i"})


def _may_have_unit(latex: str, attached: bool) -> bool:
    """Whether a trailing word may be a unit: not where a letter stands alone as a variable does.

    Behind a plain number a letter is a unit: ``12 m``. Without a space, ``12m``, only if ``attached``.
    """
    quantity = _QUANTITY.fullmatch(latex)
    if quantity and (quantity["space"] or attached):
        return True
    return not _BARE_LETTER.search(_TEXT_OR_COMMAND.sub(" ", latex))


def _sides(latex: str) -> list[str]:
    """The sides of a chain of equations; the whole text if it is none, or a list of several."""
    if _SEVERAL.search(latex):
        return [latex]
    cuts = [match.start() for match in _EQUALS.finditer(latex) if _depth(latex[: match.start()]) == 0]
    starts, ends = [0, *(cut + 1 for cut in cuts)], [*cuts, len(latex)]
    return [latex[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def _depth(text: str) -> int:
    return text.count("{") - text.count("}")


def _is_true_chain(sides: Sequence[str]) -> bool:
    """Whether those sides that are constants are the same number; a side that cannot be read is a name."""
    constants = [formula for formula in _readable(sides) if _is_constant(formula)]
    return all(_same_in_chain(constants[0], other) for other in constants[1:])


def _readable(sides: Sequence[str]) -> Iterator[Any]:
    for side in sides:
        try:
            yield read_formula(side, units=_may_have_unit(side, attached=True))
        except UnreadableError:
            continue


def _same_in_chain(one: Any, other: Any) -> bool:
    if same_scalar(one, other):
        return True
    if not (one.has(sympy.Float) or other.has(sympy.Float)):
        return False
    left, right = _value(one), _value(other)
    if left is None or right is None:
        return False
    return abs(left[0] - right[0]) <= CHAIN_TOLERANCE * max(abs(left[0]), abs(right[0]))


def _is_name(side: str) -> bool:
    """Whether the side of an equation only names what the other side gives: ``x``, ``f(x)``, ``AB``."""
    try:
        return bool(grammar.is_expr_of_only_symbols(read_formula(side)))
    except UnreadableError:
        return True


def same(gold: Any, answer: Any) -> bool:
    """Compare two sympy objects, element by element where both are lists of the same kind."""
    if _is_scalar(gold) and _is_scalar(answer):
        return same_scalar(gold, answer)
    if isinstance(gold, sympy.Interval) and isinstance(answer, sympy.Interval):
        open_alike = (gold.left_open, gold.right_open) == (answer.left_open, answer.right_open)
        return bool(open_alike) and same(gold.start, answer.start) and same(gold.end, answer.end)
    if isinstance(gold, sympy.Tuple) and isinstance(answer, sympy.Tuple):
        return _same_in_order(gold.args, answer.args)
    if isinstance(gold, sympy.FiniteSet) and isinstance(answer, sympy.FiniteSet):
        return _same_in_any_order(gold.args, list(answer.args))
    if isinstance(gold, sympy.MatrixBase) and isinstance(answer, sympy.MatrixBase):
        return gold.shape == answer.shape and _same_in_order(gold.flat(), answer.flat())
    return _verify(gold, answer)


def _same_in_order(gold: Sequence[Any], answer: Sequence[Any]) -> bool:
    return len(gold) == len(answer) and all(map(same, gold, answer))


def _same_in_any_order(gold: Sequence[Any], answer: list[Any]) -> bool:
    """Pair each element of the gold with one of the answer that is left."""
    if len(gold) != len(answer):
        return False
    for element in gold:
        match = next((index for index, other in enumerate(answer) if same(element, other)), None)
        if match is None:
            return False
        answer.pop(match)
    return True


def same_scalar(gold: Any, answer: Any) -> bool:
    """Compare two numbers or expressions: exactly, or to six decimals where a decimal is in one of them."""
    if gold == answer:
        return True
    if _differ_at_a_point(gold, answer):
        return False
    gold, answer = gold.doit(), answer.doit()
    if gold == answer:
        return True
    if gold.is_Rational and answer.is_Rational:
        return False
    if gold.is_infinite or answer.is_infinite:
        return False
    if not (_is_constant(gold) and _is_constant(answer)):
        return _verify(gold, answer)
    return _same_constant(gold, answer)


def _differ_at_a_point(gold: Any, answer: Any) -> bool:
    """Whether two expressions with variables have clearly different values where these are small primes.

    Most wrong answers end here, and are spared a simplification that may take long.
    """
    names = sorted({symbol.name for symbol in gold.free_symbols | answer.free_symbols})
    if not names:
        return False
    point = {name: sympy.Integer(sympy.prime(index + 2)) for index, name in enumerate(names)}
    one, other = (
        _value(formula.xreplace({symbol: point[symbol.name] for symbol in formula.free_symbols}))
        for formula in (gold, answer)
    )
    return one is not None and other is not None and not _agree(one, other, digits=6)


def _same_constant(gold: Any, answer: Any) -> bool:
    one, other = _value(gold), _value(answer)
    if one is None or other is None:
        return _verify(gold, answer)
    if gold.has(sympy.Float) or answer.has(sympy.Float):
        return all(map(same_decimal, one, other))
    if gold.is_zero or answer.is_zero:
        return bool(sympy.simplify(gold - answer).is_zero)
    return _agree(one, other, AGREEING_DIGITS)


def _agree(one: Value, other: Value, digits: int) -> bool:
    """Whether the values are so close that their leading digits are the same."""
    difference = max(abs(left - right) for left, right in zip(one, other, strict=True))
    return difference <= max(map(abs, one + other)) / 10**digits


def _value(constant: Any) -> Value | None:
    """Evaluate to `DIGITS` digits; None if it has no number for a value."""
    parts = constant.evalf(DIGITS).as_real_imag()
    if not all(part.is_Rational or part.is_Float for part in parts):
        return None
    real, imaginary = (sympy.Rational(part) for part in parts)
    return Fraction(int(real.p), int(real.q)), Fraction(int(imaginary.p), int(imaginary.q))


def _is_scalar(formula: Any) -> bool:
    return isinstance(formula, sympy.Expr) and not isinstance(formula, sympy.MatrixExpr)


def _is_constant(formula: Any) -> bool:
    return _is_scalar(formula) and bool(formula.is_number)


def _verify(gold: Any, answer: Any) -> bool:
    """Leave the comparison to math-verify, without its timeout, which needs signals."""
    return bool(grader.verify(gold, answer, numeric_precision=100, timeout_seconds=None, raise_on_error=True))
