"""Reading JSON lines, so that a mistake in a file is named by file and line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from envgym.errors import SetupError


def read_json_lines(path: Path, what: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of each line that is not blank.

    Args:
        path: the file.
        what: what the file is for, in words, for the message if it is missing.

    Raises:
        SetupError: if there is no such file, or at the first line that is no JSON object.
    """
    if not path.is_file():
        raise SetupError(f"{what} {path} does not exist; give the path of a JSON-lines file")
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _parse(path, number, line)
    except UnicodeDecodeError as error:
        raise SetupError(f"{path}, after line {number}: not UTF-8 text ({error.reason})") from error
    except OSError as error:
        raise SetupError(f"{what} {path} cannot be read: {error.strerror}") from error


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise SetupError(f"{path}, line {number}: not valid JSON ({error.msg}, column {error.colno})") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise SetupError(f"{path}, line {number}: JSON that cannot be read ({error})") from error
    if "\\ud" in line.lower() and _holds_half_a_pair(value):
        raise SetupError(f"{path}, line {number}: half of a surrogate pair (\\ud…), which is no text")
    if not isinstance(value, dict):
        raise SetupError(f"{path}, line {number}: a {type(value).__name__} stands where an object should be")
    return cast("dict[str, Any]", value)


def _holds_half_a_pair(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
