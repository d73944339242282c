"""Envs by name: the entry-point group ``envgym.envs`` maps a name to ``package.module:Class``.

Names are listed without importing what they name, and hold in every process without further registration. Each
is also known to Gymnasium as ``envgym/<name>-v0``.
"""

import inspect
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

import gymnasium

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
    for entry in _entry_points():
        if entry.name == name:
            return entry
    raise SetupError(f"unknown env {name!r}; the registered envs are: {', '.join(env_names())}")


def check_arguments(env_class: type[TextEnv], arguments: Mapping[str, Any]) -> None:
    """Compare argument names with the constructor's signature.

    Raises:
        SetupError: names an argument that the class does not take, and those that it does.
    """
    known = list(inspect.signature(env_class).parameters)
    for name in arguments:
        if name not in known:
            raise SetupError(f"{env_class.__name__} takes no argument {name!r}; it takes: {', '.join(known)}")


def make_env(name: str, **arguments: Any) -> TextEnv:
    """Build an env by registered name or ``package.module:Class``, with its arguments checked by name.

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
            gymnasium.register(id=env_id, entry_point=entry.value)
