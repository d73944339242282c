"""What each key means, read from the source of ``config``, where the text stands below the field."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints

from envgym_trainer import config


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """One key of a command."""

    name: str
    """Dotted, as on the command line."""
    type: str
    """As annotated."""
    text: str
    """What it means, in one paragraph."""


def keys(schema: type[Any], prefix: str = "") -> list[Key]:
    """Every key of a command's schema, in the order of the source; sections are taken apart."""
    return list(_keys(schema, prefix))


def _keys(schema: type[Any], prefix: str) -> Iterator[Key]:
    types, texts = get_type_hints(schema), _texts()
    for field in fields(schema):
        name, kind = f"{prefix}{field.name}", types[field.name]
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _keys(kind, f"{name}.")
        else:
            owner = next(base for base in schema.__mro__ if field.name in vars(base).get("__annotations__", {}))
            type_name = kind.__name__ if kind in (int, float, str, bool) else str(kind)
            yield Key(name=name, type=type_name, text=texts[owner.__name__, field.name])


@cache
def _texts() -> dict[tuple[str, str], str]:
    """The string below each field, by (class, field)."""
    found: dict[tuple[str, str], str] = {}
    for node in ast.parse(inspect.getsource(config)).body:
        if isinstance(node, ast.ClassDef):
            for statement, following in zip(node.body, node.body[1:], strict=False):
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    found[node.name, statement.target.id] = _string(following)
    return found


def _string(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value).replace("\n", " ")
    return ""
