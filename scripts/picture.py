"""Draw what a command printed as a terminal window.

    COMMAND 2>&1 | uv run python scripts/picture.py TITLE FILE.svg

Of a long output the first and the last lines are kept.
"""

import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

FIRST, LAST = 24, 12
WIDTH = 122


def shorten(lines: list[str]) -> list[str]:
    """The first and the last lines, with a mark between them where some were left out."""
    return lines if len(lines) <= FIRST + LAST + 1 else [*lines[:FIRST], "…", *lines[-LAST:]]


def main() -> None:
    title, target = sys.argv[1:]
    console = Console(record=True, width=WIDTH, file=sys.stderr)
    console.print(Text(f"$ {title}", style="bold"))
    for line in shorten(sys.stdin.read().rstrip().splitlines()):
        console.print(Text(line, overflow="ellipsis", no_wrap=True))
    drawn = console.export_svg(title=title)
    # A picture in a README loads no fonts from elsewhere.
    Path(target).write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
