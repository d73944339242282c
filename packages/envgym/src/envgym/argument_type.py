"""Comparing a value from a configuration with the type that a constructor declares for it."""

import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, cast, get_args, get_origin

_PLAIN: Mapping[Any, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}


def fits(value: object, hint: Any) -> bool:
    """Whether a value may be given where ``hint`` is declared. A hint of another kind than these fits everything.

    >>> fits(3, float), fits(True, int), fits("3", int | None), fits(None, int | None), fits("ab", list[str])
    (True, False, False, True, False)
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in parts
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if hint is None or hint is types.NoneType:
        return value is None
    if hint in _PLAIN:
        return isinstance(value, _PLAIN[hint]) and (hint is bool or not isinstance(value, bool))
    if origin in (list, tuple, Sequence):
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return False
        return origin is tuple or all(fits(item, parts[0]) for item in cast("Sequence[Any]", value))
    if origin in (dict, Mapping):
        return isinstance(value, Mapping)
    return True


def spell(hint: Any) -> str:
    """A type in words.

    >>> spell(int | None), spell(Literal["train", "eval"]), spell(list[str])
    ('int or null', "'train' or 'eval'", 'list of str')
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin in (Union, types.UnionType):
        return " or ".join(map(spell, parts))
    if hint is None or hint is types.NoneType:
        return "null"
    if origin in (list, tuple, Sequence):
        return f"list of {spell(parts[0])}" if parts else "list"
    if origin in (dict, Mapping):
        return "mapping"
    return str(hint.__name__) if isinstance(hint, type) else str(hint)
