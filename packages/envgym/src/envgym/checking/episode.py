"""Playing an env and writing down everything that it showed, so that the checks can judge it afterwards."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from envgym.env import TextEnv
from envgym.errors import RewardError
from envgym.messages import Message, Task

Watch = Callable[[str], AbstractContextManager[None]]
"""``with watch("reset(seed=3)")`` stands around each call of the env, so that somebody else can measure it."""

Actions = Callable[[TextEnv], Iterable[str]]
"""The actions of one episode. It is called after ``reset`` and resumed after each ``step``."""

BEYOND = 2
"""Steps that are tried after ``max_turns``, to see whether the episode ends at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One action and all that ``step`` returned, whatever its types."""

    action: str
    observation: object
    reward: object
    terminated: object
    truncated: object
    info: object
    """A copy, since an env may go on using its dict."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """An exception that came out of the env."""

    call: str
    kind: str
    """The name of the exception's class."""
    message: str

    def __str__(self) -> str:
        return f"{self.call} raised {self.kind}: {self.message}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """One episode as it was seen from outside."""

    name: str
    """How it was played, and on which task."""
    max_turns: int
    opening: object = ()
    opening_info: object = None
    steps: tuple[Step, ...] = ()
    crash: Crash | None = None
    """The exception that broke it off."""

    @property
    def total(self) -> float:
        """The sum of the rewards that are numbers."""
        return math.fsum(step.reward for step in self.steps if is_number(step.reward))

    @property
    def ended(self) -> bool:
        """Whether the env said that it is over."""
        return bool(self.steps) and bool(self.steps[-1].terminated or self.steps[-1].truncated)

    @property
    def observations(self) -> tuple[object, ...]:
        """The opening, and what followed each action."""
        return (self.opening, *(step.observation for step in self.steps))

    @property
    def messages(self) -> list[Message]:
        """All messages shown, the actions aside."""
        return [message for observation in self.observations for message in messages_of(observation)]

    @property
    def infos(self) -> tuple[object, ...]:
        """The ``info`` of ``reset`` and of every step."""
        return (self.opening_info, *(step.info for step in self.steps))

    @property
    def broke_its_range(self) -> bool:
        """Whether ``TextEnv.step`` itself refused a reward."""
        return self.crash is not None and self.crash.kind == RewardError.__name__


def play(
    env: TextEnv,
    actions: Actions,
    *,
    watch: Watch,
    name: str,
    task: Task | None = None,
    seed: int = 0,
) -> Episode:
    """Play one episode until it ends, should have ended, the actions run out, or an exception breaks it off."""
    recording = _Recording(env, watch)
    try:
        recording.reset(seed, task)
        recording.act(actions)
    except Exception as error:  # whatever an env raises is what is being looked for
        recording.break_off(error)
    return recording.episode(name)


class _Recording:
    """An episode while it is being played."""

    def __init__(self, env: TextEnv, watch: Watch) -> None:
        self._env = env
        self._watch = watch
        self._opening: object = ()
        self._opening_info: object = None
        self._steps: list[Step] = []
        self._call = self._action = ""
        self._crash: Crash | None = None

    def reset(self, seed: int, task: Task | None) -> None:
        self._call = f"reset(seed={seed})"
        with self._watch(self._call):
            self._opening, info = self._env.reset(seed=seed, options={} if task is None else {"task": task})
        self._opening_info = _copied(info)

    def act(self, actions: Actions) -> None:
        self._call = "choosing an action"
        script = iter(actions(self._env))
        for _ in range(self._env.max_turns + BEYOND):
            self._call = "choosing an action"
            with self._watch(self._call):
                action = next(script, None)
            if action is None or self._step(action):
                return

    def _step(self, action: str) -> bool:
        """Play one action, and say whether that ended the episode."""
        self._action = action
        self._call = f"step({shorten(repr(action), 60)})"
        with self._watch(self._call):
            observation, reward, terminated, truncated, info = self._env.step(action)
        step = Step(
            action=action,
            observation=observation,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info=_copied(info),
        )
        self._steps.append(step)
        return bool(terminated or truncated)

    def break_off(self, error: Exception) -> None:
        """Note the exception; and the step whose reward ``TextEnv`` did not let through."""
        self._crash = Crash(call=self._call, kind=type(error).__name__, message=shorten(str(error)))
        if isinstance(error, RewardError):
            refused = Step(
                action=self._action,
                observation=(),
                reward=error.reward,
                terminated=True,
                truncated=False,
                info=None,
            )
            self._steps.append(refused)

    def episode(self, name: str) -> Episode:
        return Episode(
            name=name,
            max_turns=self._env.max_turns,
            opening=self._opening,
            opening_info=self._opening_info,
            steps=tuple(self._steps),
            crash=self._crash,
        )


def _copied(info: object) -> object:
    return dict(cast("dict[str, Any]", info)) if isinstance(info, dict) else info


def messages_of(observation: object) -> list[Message]:
    """The messages in an observation that may be anything."""
    return [message for message in items_of(observation) if isinstance(message, Message)]


def items_of(observation: object) -> Sequence[object]:
    """The items of a tuple or list, of anything else none."""
    return cast("Sequence[object]", observation) if isinstance(observation, tuple | list) else ()


def is_number(value: object) -> TypeGuard[float]:
    """Whether a reward is a finite number. Truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def shorten(text: str, limit: int = 200) -> str:
    """The text in one line of at most ``limit`` characters."""
    text = " ".join(text[: 2 * limit].split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def plain_info(info: object) -> dict[str, Any]:
    """``info`` where it is a dict, else an empty one."""
    return dict(cast("dict[str, Any]", info)) if isinstance(info, dict) else {}
