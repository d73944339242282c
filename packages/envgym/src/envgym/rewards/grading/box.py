r"""Finding ``\boxed{…}`` in a text, in one pass."""

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    r"""A complete ``\boxed{content}`` that starts at ``start`` of the text."""

    content: str
    start: int


def find_boxes(text: str) -> list[Box]:
    r"""Every complete box that holds no other complete box, in order of their starts.

    >>> [box.content for box in find_boxes(r"\boxed{1} or \boxed {\frac{1}{2}} or \boxed{")]
    ['1', '\\frac{1}{2}']
    """
    boxes: list[Box] = []
    open_braces: list[tuple[int, int] | None] = []
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word.startswith("\\boxed"):
            open_braces.append((token.start(), token.end()))
        elif word == "{":
            open_braces.append(None)
        elif word == "}" and open_braces and (opened := open_braces.pop()):
            start, inside = opened
            holds_another = bool(boxes) and boxes[-1].start > start
            if not holds_another:
                boxes.append(Box(content=text[inside : token.start()], start=start))
    return boxes


def unbox(text: str) -> str:
    r"""Replace a text that has boxes by what stands in them; several different ones become a list.

    >>> unbox(r"so \boxed{5}"), unbox(r"\boxed{5} or \boxed{6}"), unbox("5")
    ('5', '5, 6', '5')
    """
    contents = dict.fromkeys(box.content.strip() for box in find_boxes(text))
    return ", ".join(contents) if contents else text
