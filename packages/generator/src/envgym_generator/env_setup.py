"""From the name and arguments of an env in config to one that is known to work, with a host to play it."""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envgym import SetupError, TextEnv, check_arguments, load_env_class, make_env
from envgym_generator.env_host import EnvHost, InlineHost, ThreadHost
from envgym_generator.env_process import ProcessHost
from envgym_generator.types import JSON

ISOLATIONS = ("inline", "thread", "process")
SPLITS = ("train", "eval")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayableEnv:
    """An env of a run."""

    env_class: type[TextEnv]
    arguments: Mapping[str, Any]
    num_tasks: Mapping[str, int]
    """By split."""
    stop_strings: tuple[str, ...]
    host: EnvHost

    def describe(self) -> JSON:
        """Class, version and every argument, defaults included, as JSON."""
        parameters = inspect.signature(self.env_class).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
        arguments = json.loads(json.dumps(defaults | dict(self.arguments), default=str))
        path = f"{self.env_class.__module__}:{self.env_class.__qualname__}"
        return {"class": path, "version": self.env_class.version, "arguments": arguments}


def prepare_env(name: str, arguments: Mapping[str, Any], isolation: str | None, num_workers: int) -> PlayableEnv:
    """Check an env by building it: its arguments, its files and its tasks.

    Args:
        name: registered, or ``package.module:Class``.
        arguments: of the constructor.
        isolation: where it is played; None for its own choice.
        num_workers: processes, where it is played in processes.

    Raises:
        SetupError: for an unknown name or argument, a wrong value, or an env without any task.
    """
    env_class = load_env_class(name)
    check_arguments(env_class, arguments)
    try:
        env = make_env(name, **arguments)
        num_tasks = {split: len(env.tasks(split)) for split in SPLITS}
        env.close()
    except SetupError:
        raise
    except (TypeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise SetupError(f"env {name!r} refuses its arguments {dict(arguments)}: {reason}") from error
    if not any(num_tasks.values()):
        raise SetupError(f"env {name!r} has no tasks with the arguments {dict(arguments)}; give it some")
    return PlayableEnv(
        env_class=env_class,
        arguments=arguments,
        num_tasks=num_tasks,
        stop_strings=tuple(env.stop_strings),
        host=_make_host(name, env_class, arguments, isolation or env.isolation, num_workers),
    )


def _make_host(
    name: str, env_class: type[TextEnv], arguments: Mapping[str, Any], isolation: str, num_workers: int
) -> EnvHost:
    if isolation == "inline":
        return InlineHost(lambda: make_env(name, **arguments), env_class.deadline_s)
    if isolation == "thread":
        return ThreadHost(lambda: make_env(name, **arguments), env_class.deadline_s)
    if isolation == "process":
        return ProcessHost(name, arguments, env_class.deadline_s, num_workers)
    raise SetupError(f"isolation of env {name!r} is {isolation!r}; it must be one of {', '.join(ISOLATIONS)}")
