"""Options that several commands share, and the reading of ``--arg key=value``."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, get_args

import typer

from envgym.env import Split
from envgym.errors import SetupError

EnvName = Annotated[
    str, typer.Argument(metavar="ENV", help="A registered name (see `envgym list`) or package.module:Class.")
]
ArgOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--arg", metavar="KEY=VALUE", help="An argument of the env; VALUE is JSON or else text. May be repeated."
    ),
]


def read_arguments(pairs: Sequence[str] | None, option: str = "--arg") -> dict[str, Any]:
    """Read ``key=value`` pairs. A value that is JSON is read as JSON, any other is text.

    >>> read_arguments(["max_turns=3", "corpus=docs.jsonl", 'rewards=[{"name": "f1"}]'])
    {'max_turns': 3, 'corpus': 'docs.jsonl', 'rewards': [{'name': 'f1'}]}

    Raises:
        SetupError: where a pair has no ``=`` or a key occurs twice.
    """
    arguments: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not (equals and key.isidentifier()):
            raise SetupError(f"{option} {pair!r} must be KEY=VALUE")
        if key in arguments:
            raise SetupError(f"{option} {key} is given twice")
        arguments[key] = _read_value(value)
    return arguments


def _read_value(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def read_split(name: str) -> Split:
    """The split of this name.

    Raises:
        SetupError: where there is none.
    """
    for split in get_args(Split):
        if split == name:
            return split
    raise SetupError(f"--split is {name!r}; it must be train or eval")
