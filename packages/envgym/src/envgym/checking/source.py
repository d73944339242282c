"""Where the envs that are checked come from: name, class, function or instance, as one picklable factory."""

import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import gymnasium

from envgym.env import TextEnv
from envgym.errors import SetupError
from envgym.registration import check_arguments, load_env_class

Target = str | type[TextEnv] | Callable[..., TextEnv] | gymnasium.Env[Any, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A recipe for any number of equal envs, in any process."""

    label: str
    factory: Callable[..., TextEnv]
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    takes_max_turns: bool = False
    """Whether the factory has an argument ``max_turns``."""

    def build(self, **changes: Any) -> TextEnv:
        """Build one env, with some arguments changed."""
        return self.factory(**{**self.arguments, **changes})


def make_source(target: Target, arguments: Mapping[str, Any]) -> Source:
    """Find out how to build more envs of this kind.

    Args:
        target: a registered name or ``package.module:Class``, a class, a function that returns an env, or an env.
        arguments: what name, class or function are called with. An instance has its arguments already.

    Raises:
        SetupError: where the target is none of these, cannot be imported, or does not take the arguments.
        PicklingError: where an instance cannot be pickled. ``AttributeError`` and ``TypeError`` mean the same.
    """
    if isinstance(target, str):
        env_class = load_env_class(target)
        check_arguments(env_class, arguments)
        return _called(target, env_class, arguments)
    if isinstance(target, gymnasium.Env):
        return _copied(cast("gymnasium.Env[Any, Any]", target), arguments)
    _refuse_unimportable(target)
    if isinstance(target, type):
        if not issubclass(target, TextEnv):
            raise SetupError(f"{target.__name__} is not a subclass of envgym.TextEnv")
        check_arguments(target, arguments)
        return _called(target.__name__, target, arguments)
    return _called(getattr(target, "__name__", repr(target)), target, arguments)


def _called(label: str, factory: Callable[..., TextEnv], arguments: Mapping[str, Any]) -> Source:
    takes_max_turns = "max_turns" in inspect.signature(factory).parameters
    return Source(label=label, factory=factory, arguments=arguments, takes_max_turns=takes_max_turns)


def _copied(env: gymnasium.Env[Any, Any], arguments: Mapping[str, Any]) -> Source:
    inner = env.unwrapped
    if not isinstance(inner, TextEnv):
        raise SetupError(f"{type(inner).__name__} is not an envgym.TextEnv")
    if arguments:
        raise SetupError(
            f"{type(inner).__name__} is built already; arguments go with a name, a class or a function"
        )
    return Source(label=type(inner).__name__, factory=partial(_unpickle, pickle.dumps(inner)))


def _unpickle(data: bytes) -> TextEnv:
    return cast(TextEnv, pickle.loads(data))


def _refuse_unimportable(target: Callable[..., Any]) -> None:
    """A class or function travels to another process by its name."""
    try:
        pickle.dumps(target)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SetupError(
            f"{target!r} cannot be sent to another process ({error}); define it in a module"
        ) from error
    module = inspect.getmodule(target)
    if module is not None and module.__name__ == "__main__":
        raise SetupError(f"{target!r} lives in the script that is running; move it into a module of its own")
