"""Where envs run: in this process, in threads, or in the killable worker processes of ``env_process``.

A host serves one kind of env. ``open`` gives a seat, which plays one episode; every call on it has the env's
deadline. What goes wrong arrives as ``RolloutFailure``, which ends that rollout and no other.
"""

import asyncio
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from envgym import InfrastructureError, Message, Task, TextEnv

FailureKind = Literal[
    "env_error", "infrastructure", "timeout", "worker_died", "bad_reward", "engine_abort", "chat", "internal"
]
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
        """End what is still running. May be called twice; seats opened afterwards work again."""
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
        action = next(self._expert, None)
        if action is None:
            raise RuntimeError(f"{type(self._env).__name__}.demonstrate ended before the episode did")
        return action

    def close(self) -> None:
        """Close the env; one that cannot be closed must not take anything else down."""
        try:
            self._env.close()
        except Exception:
            traceback.print_exc()


def describe_failure(error: Exception) -> RolloutFailure:
    """Sort what an env raised into a kind, with its traceback."""
    kind: FailureKind = "infrastructure" if isinstance(error, InfrastructureError) else "env_error"
    return RolloutFailure(kind, "".join(traceback.format_exception(error)))


class InlineHost:
    """Calls envs directly, for code that cannot hang. A call that overran its deadline fails once it is back."""

    def __init__(self, make_env: Callable[[], TextEnv], deadline_s: float) -> None:
        """``make_env`` builds an instance, cheaply."""
        self._make_env = make_env
        self._deadline_s = deadline_s

    def open(self) -> Seat:
        """A seat in this process."""
        return _LocalSeat(self._make_env, self._call)

    async def _call(self, function: Callable[[], Result]) -> Result:
        started = time.monotonic()
        result = function()
        if (seconds := time.monotonic() - started) > self._deadline_s:
            raise RolloutFailure(
                "timeout", f"the call took {seconds:.1f} s, and its deadline is {self._deadline_s} s"
            )
        return result

    def close(self) -> None:
        """Nothing is left running."""


class ThreadHost:
    """Runs each call in a thread of its own, and abandons the thread at the deadline.

    A thread cannot be killed: an abandoned one goes on until its call returns, if ever. Once ``max_abandoned`` are
    still running, no seat is opened any more.
    """

    def __init__(self, make_env: Callable[[], TextEnv], deadline_s: float, max_abandoned: int = 64) -> None:
        """``make_env`` builds an instance, cheaply."""
        self._make_env = make_env
        self._deadline_s = deadline_s
        self._max_abandoned = max_abandoned
        self._abandoned: list[threading.Thread] = []

    def open(self) -> Seat:
        """A seat in this process."""
        return _LocalSeat(self._make_env, self._call)

    async def _call(self, function: Callable[[], Result]) -> Result:
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        if len(self._abandoned) >= self._max_abandoned:
            raise RolloutFailure("timeout", f"{len(self._abandoned)} threads hang in earlier calls of this env")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        thread = threading.Thread(target=_call_into, args=(function, future, loop), daemon=True)
        thread.start()
        try:
            return await asyncio.wait_for(future, self._deadline_s)
        except TimeoutError:
            if not future.cancelled():
                raise  # the env's own
            self._abandoned.append(thread)
            report = f"the call did not end within its deadline of {self._deadline_s} s, and its thread was left"
            raise RolloutFailure("timeout", report) from None

    def close(self) -> None:
        """Nothing can be done about threads that hang; they end with the process."""


def _call_into(
    function: Callable[[], Result], future: "asyncio.Future[Result]", loop: asyncio.AbstractEventLoop
) -> None:
    """Call a function and give what came of it to a future of another thread's loop, if it still waits."""

    def settle(settled: Callable[[Any], None], value: object) -> None:
        if not future.done():
            settled(value)

    try:
        outcome: tuple[Callable[[Any], None], object] = (future.set_result, function())
    except Exception as error:
        outcome = (future.set_exception, error)
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle, *outcome)


class _LocalSeat:
    """An episode in this process, whose calls a host makes."""

    def __init__(self, make_env: Callable[[], TextEnv], call: Callable[[Callable[[], Any]], Any]) -> None:
        self._make_env = make_env
        self._call = call
        self._episode: Episode | None = None
        self._hangs = False

    async def reset(self, split: str, task_index: int, seed: int) -> Opening:
        def start() -> Opening:
            self._episode = Episode(self._make_env())
            return self._episode.reset(split, task_index, seed)

        return await self._guarded(start)

    async def step(self, action: str) -> Step:
        return await self._guarded(lambda: self._playing.step(action))

    async def demonstrate(self) -> str:
        return await self._guarded(lambda: self._playing.demonstrate())

    @property
    def _playing(self) -> Episode:
        if self._episode is None:
            raise RuntimeError("step before reset")
        return self._episode

    async def _guarded(self, function: Callable[[], Result]) -> Result:
        try:
            return await self._call(function)
        except RolloutFailure as failure:
            self._hangs = failure.kind == "timeout"
            raise
        except Exception as error:
            raise describe_failure(error) from error

    async def close(self) -> None:
        if self._episode is not None and not self._hangs:
            self._episode.close()
