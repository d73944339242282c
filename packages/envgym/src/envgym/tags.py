"""Reading and defusing the XML-like tags through which a model acts. Every function is linear in the text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from envgym.errors import SetupError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """A complete tag found in a text: ``text[start:end]`` is ``<name>content</name>``."""

    name: str
    content: str
    start: int
    end: int


def check_tag_name(name: str) -> str:
    """Return the name of a tag, or raise ``SetupError`` where it could not be parsed back."""
    if not _NAME.match(name):
        raise SetupError(f"tag name {name!r} must be a letter followed by letters, digits, '_' or '-'")
    return name


def first_tag(text: str, names: Iterable[str]) -> Tag | None:
    """Find the complete tag that closes first, as sampling with the closers for stop strings would find it.

    Where an opener is repeated before the closer, the last one counts: the words before it are thinking aloud.

        >>> first_tag("I will <search>a</search> and <answer>b</answer>", ["answer", "search"]).content
        'a'
    """
    found = (_first_of(text, name) for name in names)
    return min((tag for tag in found if tag), key=lambda tag: tag.end, default=None)


def _first_of(text: str, name: str) -> Tag | None:
    opener, closer = f"<{name}>", f"</{name}>"
    start = text.find(opener)
    close = text.find(closer, start + len(opener)) if start >= 0 else -1
    if close < 0:
        return None
    start = text.rfind(opener, start, close)
    return Tag(name=name, content=text[start + len(opener) : close], start=start, end=close + len(closer))


def last_tag(text: str, name: str) -> Tag | None:
    """Find the last complete tag of this name in a whole response; of nested ones, the inner one.

    >>> last_tag("<answer>1</answer> no, <answer>2</answer>", "answer").content
    '2'
    >>> last_tag("<answer><answer>3</answer></answer>", "answer").content
    '3'
    """
    opener, closer = f"<{name}>", f"</{name}>"
    close = text.rfind(closer)
    start = text.rfind(opener, 0, close) if close >= 0 else -1
    if start < 0:
        return None
    close = text.find(closer, start)
    return Tag(name=name, content=text[start + len(opener) : close], start=start, end=close + len(closer))


@lru_cache(maxsize=256)
def _any_tag(names: tuple[str, ...]) -> re.Pattern[str]:
    alternatives = "|".join(re.escape(name) for name in names)
    return re.compile(rf"<(?=\s*(?:/\s*)?(?:{alternatives})(?!\w))", re.IGNORECASE)


def defuse(text: str, names: Iterable[str]) -> str:
    """Rewrite the ``<`` of these tags as ``&lt;``, so that untrusted text can neither open nor close them.

    >>> defuse("a <b> and </answer>", ["answer"])
    'a <b> and &lt;/answer>'
    """
    return _any_tag(tuple(names)).sub("&lt;", text)
