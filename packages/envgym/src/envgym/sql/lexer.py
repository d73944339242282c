"""Just enough of SQL's tokens to find clauses: strings, quoted names, comments and parentheses are seen as such.

Every function is linear in the text.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from envgym.sql.database import quote_name

_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<text>    '(?:[^']|'')*(?:'|\Z) )
    | (?P<name>    "(?:[^"]|"")*(?:"|\Z) | `(?:[^`]|``)*(?:`|\Z) | \[[^\]]*(?:\]|\Z) )
    | (?P<word>    [^\W\d]\w* )
    | (?P<number>  \d[\w.]* )
    | (?P<space>   \s+ )
    | (?P<sign>    . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ORDER_MATTERS = frozenset(
    {"order", "group", "limit", "over", "random", "group_concat", "string_agg", "json_group_array"}
)
_QUERY_STARTS = frozenset({"select", "with", "values"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A token that is neither space nor comment."""

    kind: str
    """``text`` (a string), ``name`` (a quoted name), ``word``, ``number`` or ``sign``."""
    value: str
    """Words in lower case, everything else as written."""
    start: int
    end: int
    depth: int
    """How many parentheses are open around it; a parenthesis counts as outside of itself."""


def tokens(sql: str) -> list[Token]:
    """The tokens of a statement.

    >>> [token.value for token in tokens("SELECT 'ORDER BY' -- no")]
    ['select', "'ORDER BY'"]
    """
    return list(_walk(sql))


def _walk(sql: str) -> Iterator[Token]:
    depth = 0
    for match in _TOKEN.finditer(sql):
        kind, value = match.lastgroup or "sign", match[0]
        if kind in ("space", "comment"):
            continue
        if value == ")":
            depth = max(0, depth - 1)
        value = value.lower() if kind == "word" else value
        yield Token(kind=kind, value=value, start=match.start(), end=match.end(), depth=depth)
        if value == "(":
            depth += 1


def has_top_level_order(sql: str) -> bool:
    """Whether the order of the statement's rows is asked for: an ORDER BY that is not inside parentheses.

    >>> has_top_level_order("SELECT * FROM (SELECT 1 ORDER BY 1)"), has_top_level_order("SELECT 1 ORDER BY 1")
    (False, True)
    """
    return any(token.depth == 0 for token in _order_bys(tokens(sql)))


def _order_bys(found: list[Token]) -> Iterator[Token]:
    """The word ORDER of every ORDER BY."""
    for token, following in pairwise(found):
        if token.kind == "word" and (token.value, following.value) == ("order", "by"):
            yield token


def leaves_order_open(sql: str) -> bool:
    """Whether the order of rows could matter to what a statement gives, beyond the order of its own rows.

    >>> leaves_order_open("SELECT a FROM t WHERE b"), leaves_order_open("SELECT a FROM t LIMIT 1")
    (False, True)
    """
    return any(token.kind == "word" and token.value in _ORDER_MATTERS for token in tokens(sql))


def shuffle_ties(sql: str) -> str:
    """Rewrite a statement so that rows which its ORDER BYs leave in any order come out in a random one.

    ``random()`` becomes the last key of every ORDER BY of a query, and the only key of a LIMIT without one. What
    the statement gives then depends on the seed of ``random()`` where it depended on chance before.

        >>> shuffle_ties("SELECT a FROM t ORDER BY b LIMIT 1")
        'SELECT a FROM t ORDER BY b , random() LIMIT 1'
    """
    found = tokens(sql.rstrip().rstrip(";"))
    for position, addition in sorted(_insertions(found), reverse=True):
        sql = f"{sql[:position]} {addition}{sql[position:]}"
    return sql


def shuffle_rows(sql: str, tables: Iterable[str]) -> str:
    """Rewrite a statement so that it reads the rows of tables in a random order.

    Each table that it names is hidden by a common table expression of the same name.

        >>> shuffle_rows("SELECT a FROM t", ["t", "u"])
        'WITH "t" AS (SELECT * FROM main."t" ORDER BY random() LIMIT -1) SELECT a FROM t'
    """
    found = tokens(sql)
    named = {token.value.strip('"`[]').lower() for token in found if token.kind in ("word", "name")}
    quoted = [quote_name(table) for table in tables if table.lower() in named]
    if not quoted or found[0].value == "with":
        return sql
    shadows = ", ".join(f"{name} AS (SELECT * FROM main.{name} ORDER BY random() LIMIT -1)" for name in quoted)
    return f"WITH {shadows} {sql}"


def _insertions(found: list[Token]) -> Iterator[tuple[int, str]]:
    """(position, text) of each random key. One pass, with a frame for each open parenthesis."""
    frames = [_Frame()]
    for index, token in enumerate(found):
        following = found[index + 1].value if index + 1 < len(found) else ""
        frame = frames[-1]
        if token.value == "(":
            frames.append(_Frame(is_query=following in _QUERY_STARTS))
        elif token.value == ")" and len(frames) > 1:
            yield from frames.pop().close(found[index - 1].end)
        elif token.kind == "word" and (token.value, following) == ("order", "by"):
            frame.ordered = True
        elif token.kind == "word" and token.value == "limit":
            yield from frame.limit(found[index - 1].end)
    if len(frames) == 1 and found:
        yield from frames[0].close(found[-1].end)


@dataclass(kw_only=True, slots=True)
class _Frame:
    """What is open at one depth of parentheses."""

    is_query: bool = True
    """False inside a function call, a window or a list, where an ORDER BY is of another kind."""
    ordered: bool = False
    limited: bool = False

    def limit(self, position: int) -> Iterator[tuple[int, str]]:
        if self.is_query and not self.limited:
            self.limited = True
            yield position, ", random()" if self.ordered else "ORDER BY random()"

    def close(self, position: int) -> Iterator[tuple[int, str]]:
        if self.is_query and self.ordered and not self.limited:
            yield position, ", random()"
