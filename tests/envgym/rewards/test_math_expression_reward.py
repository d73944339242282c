"""Which answers are mathematically the gold, beyond the acceptance cases."""

import pytest

from envgym.errors import BadGoldError
from envgym.rewards import math_expression_reward

SAME = [
    # numbers
    ("1,000,000", "10^6"),
    ("1 000 000", "1000000"),
    ("7/3", "2 1/3"),
    ("-7/3", "-2 1/3"),
    ("1/3", r"0.\overline{3}"),
    ("0.5", "½"),
    ("1500", "1.5e3"),
    ("1500", r"1.5 \times 10^3"),
    ("5", "$5.00"),
    ("5", "5 dollars"),
    ("2", r"\sqrt[3]{8}"),
    (r"\pi", "3.141593"),
    ("2π", "2pi"),
    (r"\infty", "inf"),
    ("i", r"\sqrt{-1}"),
    # percents
    ("0.1", r"10\%"),
    (r"50\%", r"\frac{1}{2}"),
    (r"\sqrt{2}\%", r"\sqrt{2}"),
    ("1/2", r"50 \text{ percent}"),
    ("0.5", "x = 50%"),
    # units
    ("12 m", "12"),
    ("12", "12m"),
    (r"2\pi", r"2\pi cm"),
    (r"3 \text{ cm}^2", "3"),
    # formulas
    (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5+2\sqrt{6}}"),
    ("x**2", "x²"),
    (r"\sqrt 8", "2√2"),
    ("sin x", r"\sin(x)"),
    (r"\frac{n(n+1)}{2}", r"\sum_{k=1}^{n} k"),
    (r"x \cdot y", "xy"),
    ("5t", "5 t"),
    # equations
    ("5", "x=2+3=5"),
    ("0.33", "1/3=0.33"),
    ("90", r"\angle ABC = 90^\circ"),
    ("y=2x+1", "2x+1"),
    ("y=2x+1", "2x-y+1=0"),
    ("x=1 or x=2", "x=2 or x=1"),
    ("x≥2", "2 <= x"),
    # lists
    ("1,2", "2,1"),
    (r"5,6", r"\boxed{5} and \boxed{6}"),
    (r"\{1,2\}", "{1,2}"),
    ("(3,4)", r"\left( 3, 4 \right)"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
    # labels
    ("no solution", r"\text{No solution.}"),
    ("A, C", "C and A"),
    ("AB", r"\overline{AB}"),
    ("B", "The correct answer is B."),
    ("A", "(A)"),
]

DIFFERENT = [
    ("0", "0.0000001"),
    ("10^{60}", "10^{60}+1"),
    (r"\frac{x}{2^{99}}", r"\frac{x}{2^{98}}"),
    (r"x=\frac{1}{2^{99}}", r"x=\frac{1}{2^{98}}"),
    (r"(\frac{1}{2^{99}},1)", r"(\frac{1}{2^{98}},1)"),
    ("(0.0000001,1)", "(0.0000002,1)"),
    (r"\pi", "22/7"),
    (r"\infty", r"-\infty"),
    ("50%", "5000"),
    ("5t", "5s"),
    (r"2\pi h", r"2\pi"),
    (r"2\pi rh", r"2\pi r"),
    ("5", "5 or 6"),
    ("5", "5, 6"),
    ("5", "not 5"),
    ("5", r"\boxed{5} \boxed{6}"),
    ("5", "x=2+2=5"),
    ("x=5", "x=4=5"),
    ("x=5", "y=5"),
    ("x^2+y^2", "(x+y)^2"),
    (r"\sqrt{x^2}", "x"),
    ("(-1,2]", "(-1,2)"),
    ("x<2", r"x \le 2"),
    ("yes", "sey"),
    (r"\angle ABC", r"\angle BAC"),
    ("A", "B"),
    ("5", "five"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix} 1 \\ 3 \end{pmatrix}"),
]


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_answer_is_the_gold(gold: str, answer: str):
    assert math_expression_reward(gold, f"<answer>{answer}</answer>") == (1.0, True)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_answer_is_not_the_gold(gold: str, answer: str):
    outcome = math_expression_reward(gold, f"<answer>{answer}</answer>")
    assert (outcome, outcome.status) == ((0.0, False), "ok")


@pytest.mark.parametrize("gold", ["", "  ", r"\boxed{}", r"\frac{1}{", "1/0", "5 6", "x" * 3000])
@pytest.mark.parametrize("response", ["nothing", "<answer>5</answer>", "<answer> </answer>"])
def test_unreadable_gold_raises_whatever_the_response(gold: str, response: str):
    with pytest.raises(BadGoldError):
        math_expression_reward(gold, response)


def test_unreadable_gold_raises_even_where_the_answer_repeats_it():
    with pytest.raises(BadGoldError):
        math_expression_reward(r"\frac{1}{", r"<answer>\frac{1}{</answer>")


@pytest.mark.parametrize(
    ("answer", "status"),
    [("", "no_answer"), (r"\frac{1}{", "unparseable"), ("5 6", "unparseable"), ("5}6{", "unparseable")],
)
def test_status_says_why_there_is_no_reward(answer: str, status: str):
    outcome = math_expression_reward("5", f"<answer>{answer}</answer>")
    assert (outcome, outcome.status) == ((0.0, False), status)


def test_answer_too_long_for_the_grammar_is_unparseable():
    assert math_expression_reward("5", f"<answer>{'5+' * 5000}0</answer>").status == "unparseable"


def test_malformed_tag_name_is_refused():
    with pytest.raises(ValueError, match="tag name"):
        math_expression_reward("5", "5", tag="a b")
