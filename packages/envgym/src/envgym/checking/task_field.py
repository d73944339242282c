"""The single values inside the nested data of a task, by their place, and tasks with one of them exchanged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from envgym.messages import Task

Place = tuple[str | int, ...]
"""Keys and positions that lead to a value, for example ``("answers", 0)``."""

Side = Literal["data", "answer"]
MAX_VALUES = 24


def values_in(nested: object, place: Place = ()) -> Iterator[tuple[Place, object]]:
    """Every single value inside mappings and sequences, with its place. Of a sequence, the first three items.

    >>> list(values_in({"a": 1, "b": ["x", {"c": "y"}]}))
    [(('a',), 1), (('b', 0), 'x'), (('b', 1, 'c'), 'y')]
    """
    if isinstance(nested, Mapping):
        for key, value in cast("Mapping[str, object]", nested).items():
            yield from values_in(value, (*place, key))
    elif isinstance(nested, list | tuple):
        for index, value in enumerate(cast("Sequence[object]", nested)[:3]):
            yield from values_in(value, (*place, index))
    else:
        yield place, nested


def exchanged(nested: Any, place: Place, value: object) -> Any:
    """A copy with the value at ``place`` exchanged.

    >>> exchanged({"a": 1, "b": ("x", "y")}, ("b", 1), "z")
    {'a': 1, 'b': ('x', 'z')}
    """
    if not place:
        return value
    first, *rest = place
    if isinstance(nested, Mapping):
        fields = cast("Mapping[str | int, object]", nested)
        return {**fields, first: exchanged(fields[first], tuple(rest), value)}
    items = list(nested)
    items[int(first)] = exchanged(items[int(first)], tuple(rest), value)
    return type(nested)(items)


def with_value(task: Task, side: Side, place: Place, value: object) -> Task:
    """The task with one value of its data or of its answer exchanged."""
    if side == "data":
        return replace(task, data=exchanged(task.data, place, value))
    return replace(task, answer=exchanged(task.answer, place, value))


def spell(side: Side, place: Place) -> str:
    """A place as an author would write it: ``answer["answers"][0]``."""
    return side + "".join(f"[{part!r}]" for part in place)
