"""Where environments run. ``InlineHost`` calls them in this process; ``env_process`` has the other one.

A host serves one kind of env. ``open`` gives a seat, which plays one episode; every call on it has the env's
deadline. What goes wrong arrives as ``RolloutFailure``, which ends that rollout and no other.
"""

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from envgym import InfrastructureError, Message, Task, TextEnv

FailureKind = Literal["env_error", "infrastructure", "timeout", "worker_died", "bad_reward", "engine_abort"]
Result = TypeVar("Result")


class RolloutFailure(Exception):
    """Something a rollout needs failed. ``kind`` says how, ``report`` is the traceback for the user."""

    def __init__(self, kind: FailureKind, report: str) -> None:
        """``report`` is shown to the user and never to the model."""
        super().__init__(report)
        self.kind: FailureKind = kind
        self.report = report


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """What ``reset`` gave."""

    messages: tuple[Message, ...]
    task_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What ``step`` gave."""

    observation: tuple[Message, ...]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Seat(Protocol):
    """One episode in a host."""

    async def reset(self, split: str, task_index: int, seed: int) -> Opening:
        """Start the episode."""
        ...

    async def step(self, action: str) -> Step:
        """Play one action."""
        ...

    async def demonstrate(self) -> str:
        """Ask the env's scripted expert for its next action."""
        ...

    async def close(self) -> None:
        """Give the seat back. Never raises."""
        ...


class EnvHost(Protocol):
    """Serves seats for one kind of env."""

    def open(self) -> Seat:
        """A seat for one episode."""
        ...

    def close(self) -> None:
        """End what is still running. May be called twice."""
        ...


class Episode:
    """One env being played, with the expert that may be asked about it. Runs inside a host."""

    def __init__(self, env: TextEnv) -> None:
        """Wrap an env."""
        self._env = env
        self._expert: Iterator[str] | None = None
        self._seed = 0

    def reset(self, split: Any, task_index: int, seed: int) -> Opening:
        """Start the episode of a task."""
        task: Task = self._env.tasks(split)[task_index]
        messages, info = self._env.reset(seed=seed, options={"task": task})
        self._seed = seed
        self._expert = None
        return Opening(messages=tuple(messages), task_id=str(info.get("task_id", task.id)))

    def step(self, action: str) -> Step:
        """Play one action."""
        observation, reward, terminated, truncated, info = self._env.step(action)
        return Step(
            observation=tuple(observation),
            reward=float(reward),
            terminated=bool(terminated),
            truncated=bool(truncated),
            info=info,
        )

    def demonstrate(self) -> str:
        """The expert's next action."""
        if self._expert is None:
            self._expert = self._env.demonstrate(np.random.default_rng(self._seed))
        return next(self._expert)

    def close(self) -> None:
        """Close the env."""
        self._env.close()


class InlineHost:
    """Calls envs directly, for code that cannot hang. A call that overran its deadline fails once it is back."""

    def __init__(self, make_env: Callable[[], TextEnv], deadline_s: float) -> None:
        """``make_env`` builds an instance, cheaply."""
        self._make_env = make_env
        self._deadline_s = deadline_s

    def open(self) -> Seat:
        """A seat in this process."""
        return _InlineSeat(self._make_env, self._deadline_s)

    def close(self) -> None:
        """Nothing is left running."""


class _InlineSeat:
    def __init__(self, make_env: Callable[[], TextEnv], deadline_s: float) -> None:
        self._make_env = make_env
        self._deadline_s = deadline_s
        self._episode: Episode | None = None

    async def reset(self, split: str, task_index: int, seed: int) -> Opening:
        def start() -> Opening:
            self._episode = Episode(self._make_env())
            return self._episode.reset(split, task_index, seed)

        return self._call(start)

    async def step(self, action: str) -> Step:
        return self._call(lambda: self._playing.step(action))

    async def demonstrate(self) -> str:
        return self._call(lambda: self._playing.demonstrate())

    @property
    def _playing(self) -> Episode:
        if self._episode is None:
            raise RuntimeError("step before reset")
        return self._episode

    def _call(self, function: Callable[[], Result]) -> Result:
        started = time.monotonic()
        try:
            result = function()
        except Exception as error:
            raise describe_failure(error) from error
        if (seconds := time.monotonic() - started) > self._deadline_s:
            raise RolloutFailure(
                "timeout", f"the call took {seconds:.1f} s, and its deadline is {self._deadline_s} s"
            )
        return result

    async def close(self) -> None:
        if self._episode is not None:
            close_quietly(self._episode)


def close_quietly(episode: Episode) -> None:
    """Close an env; one that cannot even be closed must not take the step down with it."""
    try:
        episode.close()
    except Exception:
        traceback.print_exc()


def describe_failure(error: Exception) -> RolloutFailure:
    """Sort what an env raised into a kind, with its traceback."""
    kind: FailureKind = "infrastructure" if isinstance(error, InfrastructureError) else "env_error"
    return RolloutFailure(kind, "".join(traceback.format_exception(error)))
