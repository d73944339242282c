"""What the commands write to the terminal: tables, and texts by others that must not steer it."""

import re

from rich.console import Console
from rich.table import Table

# Everything that moves a cursor, switches colours or turns the direction of writing; also halves of surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

WIDTH_OF_A_FILE = 160


def make_console(*, stderr: bool = False) -> Console:
    """A console that takes no markup from texts, and does not wrap at 80 where it writes to a file."""
    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    return console


def make_table(*columns: str) -> Table:
    """A table without lines between its rows, so that it can be copied and searched."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def printable(text: str) -> str:
    r"""The text with control characters spelled out, so that a document cannot steer the terminal.

    >>> printable("a\x1b[31m\u202eb\n")
    'a\\x1b[31m\\u202eb\n'
    """
    return _UNSAFE.sub(lambda match: ascii(match.group())[1:-1], text)
