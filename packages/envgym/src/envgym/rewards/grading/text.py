r"""Writing an answer in one plain form: no wrapper, no unit of layout, no Unicode look-alike.

What comes out is still LaTeX, or plain text, and says the same. Every pass is linear in the text.
"""

import re

from envgym.rewards.grading.box import unbox

_SYMBOLS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "—": "-",
        "×": r"\times ",
        "·": r"\cdot ",
        "⋅": r"\cdot ",
        "÷": "/",
        "⁄": "/",
        "∕": "/",
        "π": r"\pi ",
        "∞": r"\infty ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "∪": r"\cup ",
        "∩": r"\cap ",
        "∈": r"\in ",
        "±": r"\pm ",
        "°": "",
        "½": " 1/2",
        "⅓": " 1/3",
        "⅔": " 2/3",
        "¼": " 1/4",
        "¾": " 3/4",
        "⅕": " 1/5",
        "⅛": " 1/8",
        "£": "",
        "€": "",
        "¥": "",
        "％": "%",
        "，": ",",
        "（": "(",
        "）": ")",
    }
)
_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")
_FROM_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_ROOT = re.compile(r"√\s*(\d+|[A-Za-z]|\([^()√]*\))")
# A row break of a matrix is matched first, so that its second backslash is not taken for a space command.
_LAYOUT = re.compile(
    r"(?P<row>\\\\)"
    r"|\\(?:left|right|displaystyle|quad|qquad|[bB]igg?[lr]?)(?![A-Za-z])"
    r"|\\[,;:!>()\[\]]"
    r"|(?P<space>\\ |~)"
)
_RELATIONS = (("<=", r"\le "), (">=", r"\ge "), ("!=", r"\ne "))
_NAMES = re.compile(
    r"(?<![A-Za-z\\])(sin|cos|tan|sec|csc|cot|arcsin|arccos|arctan|log|ln|exp|pi)(?![A-Za-z])"
    r"|(?<![A-Za-z\\])(?P<infinite>inf|infinity)(?![A-Za-z])"
    r"|(?P<empty>\\varnothing)(?![A-Za-z])"
)
_CURRENCY = re.compile(r"(?<=[0-9]) ?(?:dollar|euro)s?\Z", re.IGNORECASE)
_DEGREE = re.compile(r"\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})|\\degree(?![A-Za-z])")
_FRACTION = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_ENDING = " \t\n.,;:。"
_LEAD_IN = re.compile(
    r"(?:(?:so|thus|hence|therefore|and)\b[ ,]*)?"
    r"(?:the |my |our )?(?:final |correct |right )?(?:answer|result|solution|value|option|choice)\b"
    r"(?: (?:is|equals|must be|would be|should be))?\s*[:=]?\s*(?P<rest>\S.*)",
    re.IGNORECASE | re.DOTALL,
)


def plain_text(text: str) -> str:
    r"""Bring an answer into its plain form.

    >>> plain_text(r"The answer is \boxed{90°}."), plain_text("$x²$"), plain_text(r"\left(1,\,2\right)")
    ('90', 'x^{2}', '(1,2)')
    """
    text = _ascii(unbox(text))
    text = _trimmed(_without_layout(text))
    lead_in = _LEAD_IN.fullmatch(text)
    text = _trimmed(lead_in["rest"]) if lead_in else text
    return _CURRENCY.sub("", _NAMES.sub(_command, text))


def _ascii(text: str) -> str:
    text = _SUPERSCRIPT.sub(lambda run: "^{" + run[0].translate(_FROM_SUPERSCRIPT) + "}", text)
    text = _ROOT.sub(lambda root: r"\sqrt{" + root[1].strip("()") + "}", text)
    for sign, command in _RELATIONS:
        text = text.replace(sign, command)
    return text.translate(_SYMBOLS)


def _without_layout(text: str) -> str:
    text = _LAYOUT.sub(lambda word: word["row"] or (" " if word["space"] else ""), text)
    text = _FRACTION.sub(r"\\frac", _DEGREE.sub("", text))
    return text.replace("\\$", "").replace("$", "").replace(r"\%", "%").replace("{,}", ",")


def _command(name: re.Match[str]) -> str:
    r"""Write a name that people spell out, ``sin`` or ``infinity``, as its command."""
    if name["infinite"]:
        return r"\infty"
    return r"\emptyset" if name["empty"] else "\\" + name[0]


def _trimmed(text: str) -> str:
    """Drop the marks of bold text, a leading equals sign, and the full stop or comma of the sentence around."""
    text = text.strip().strip("*").rstrip(_ENDING).removeprefix("=")
    return " ".join(text.replace("**", "^").split())
