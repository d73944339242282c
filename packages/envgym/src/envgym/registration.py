"""Envs by name: the entry-point group ``envgym.envs`` maps a name to ``package.module:Class``.

Names are listed without importing what they name, and hold in every process without further registration. Each
is also known to Gymnasium as ``envgym/<name>-v0``.
"""

import inspect
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast, get_type_hints

import gymnasium

from envgym.argument_type import fits, spell
from envgym.env import TextEnv
from envgym.errors import SetupError

GROUP = "envgym.envs"


def env_names() -> tuple[str, ...]:
    """Every registered name, sorted. Nothing is imported."""
    return tuple(sorted({entry.name for entry in _entry_points()}))


def env_target(name: str) -> str:
    """``package.module:Class`` of a registered name. Nothing is imported.

    Raises:
        SetupError: for an unknown name; the message lists the known ones.
    """
    return _entry_point(name).value


def load_env_class(name: str) -> type[TextEnv]:
    """Import the class behind a registered name, or behind ``package.module:Class``.

    Raises:
        SetupError: for an unknown name (the message lists the known ones) or a class that cannot be imported.
    """
    target = env_target(name) if ":" not in name else name
    module, _, attribute = target.partition(":")
    try:
        found: object = inspect.getattr_static(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SetupError(f"env {name!r} is registered as {target}, which cannot be imported: {error}") from error
    if not (inspect.isclass(found) and issubclass(found, TextEnv)):
        raise SetupError(f"env {name!r} is {target}, which is not a subclass of envgym.TextEnv")
    return found


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """The entries of the group, read once: reading costs more than building an env."""
    return tuple(entry_points(group=GROUP))


def _entry_point(name: str) -> EntryPoint:
    found = {entry.value: entry for entry in _entry_points() if entry.name == name}
    if len(found) > 1:
        raise SetupError(f"env {name!r} is registered more than once: {', '.join(sorted(found))}; uninstall one")
    for entry in found.values():
        return entry
    raise SetupError(f"unknown env {name!r}; the registered envs are: {', '.join(env_names())}")


def check_arguments(env_class: type[TextEnv], arguments: Mapping[str, Any]) -> None:
    """Compare arguments with the constructor's signature: their names, and their values with the declared types.

    Raises:
        SetupError: names an argument that the class does not take, and those that it does; or a value of another
            type.
    """
    known = _parameters(env_class)
    for name, value in arguments.items():
        if name not in known:
            raise SetupError(f"{env_class.__name__} takes no argument {name!r}; it takes: {', '.join(known)}")
        if not fits(value, known[name]):
            raise SetupError(f"{env_class.__name__}: {name} is {value!r}; it must be {spell(known[name])}")


@cache
def _parameters(env_class: type[TextEnv]) -> Mapping[str, Any]:
    """The constructor's arguments with their types; Any where none is declared, or none that can be resolved."""
    try:
        hints = get_type_hints(env_class.__init__)
    except (NameError, TypeError):  # types that are imported for checkers alone
        hints = {}
    return {name: hints.get(name, Any) for name in inspect.signature(env_class).parameters}


def make_env(name: str, **arguments: Any) -> TextEnv:
    """Build an env by registered name or ``package.module:Class``, with its arguments checked.

    >>> make_env("search", max_turns=3).max_turns
    3
    """
    env_class = load_env_class(name)
    check_arguments(env_class, arguments)
    return cast("type[Any]", env_class)(**arguments)


def register_in_gymnasium() -> None:
    """Make every registered name known to Gymnasium as ``envgym/<name>-v0``, still without importing it."""
    for entry in _entry_points():
        env_id = f"envgym/{entry.name}-v0"
        if env_id not in gymnasium.registry:
            gymnasium.register(id=env_id, entry_point=entry.value)  # pyright: ignore[reportUnknownMemberType]
