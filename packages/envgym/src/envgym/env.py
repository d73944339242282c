"""``TextEnv``: the whole interface of a text environment. A new env can be written from this file alone.

An env says what its tasks are (``tasks``), how an episode opens (``open``) and what an action earns (``respond``).
``TextEnv`` turns that into a ``gymnasium.Env`` and keeps the promises that are the same for every env: an episode
that is over stays over, the turns announced in the prompt are the turns there are, and rewards are finite and
inside the declared range.

    >>> class Echo(TextEnv):
    ...     isolation = "inline"
    ...     def tasks(self, split):
    ...         return [Task(id="0", data={"word": "ada"}, answer={"word": "ada"})]
    ...     def open(self, task):
    ...         return (Message(role="user", content=f"Say {task.data['word']}."),)
    ...     def respond(self, action):
    ...         right = action.strip() == self.task.answer["word"]
    ...         return Reply(reward=float(right), done=True, success=right)
    >>> env = Echo(max_turns=1)
    >>> messages, info = env.reset(seed=1)
    >>> messages[0].content
    'Say ada.'
    >>> env.step("ada")[1:3]
    (1.0, True)
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from envgym.errors import RewardError, SetupError
from envgym.messages import Message, Task
from envgym.spaces import MessagesSpace, TextSpace

Observation = tuple[Message, ...]
Split = Literal["train", "eval"]
Isolation = Literal["inline", "thread", "process"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What one action led to."""

    observation: Observation = ()
    """The new messages only, never the history."""
    reward: float = 0.0
    """What this action earned, not a running total."""
    done: bool = False
    """True ends the episode here. Using up ``max_turns`` ends it too, without being asked."""
    success: bool | None = None
    """Whether the task was solved. None where the env has no such notion or the episode goes on."""
    reward_terms: Mapping[str, float] = field(default_factory=dict[str, float])
    """The named parts that ``reward`` was made of."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Anything worth averaging over episodes, reported once the episode ends."""


class TextEnv(gymnasium.Env[Observation, str]):
    """A text environment: messages out, an action string in, a reward per step.

    Attributes that a subclass sets on the class:
        version: changes whenever the same actions may lead to another episode.
        isolation: where a generator runs the env. ``inline`` calls it directly and is for code that cannot hang;
            ``thread`` abandons a call that outlives its deadline; ``process`` kills it. What can hang in C code or
            in a regular expression needs ``process``. A constructor may choose by its arguments.
        deadline_s: seconds that one call of ``reset`` or ``step`` may take.
        reward_range: (lowest, highest). Each step's reward and the sum over an episode stay inside it.

    Attributes that the constructor sets:
        max_turns: actions per episode, as announced in the prompt. Nothing else overrides it.
        split: the tasks that ``reset`` draws from when it is given none.
        stop_strings: the ends of the env's action tags; a generator stops sampling behind them.

    Attributes that ``reset`` sets:
        task: the task being played.
        turn: the number of actions taken so far.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (Gymnasium declares it as an instance attribute)
    version: ClassVar[str] = "0"
    isolation: Isolation = "process"
    deadline_s: ClassVar[float] = 30.0
    reward_range: tuple[float, float] = (0.0, 1.0)
    stop_strings: tuple[str, ...] = ()

    task: Task
    turn: int

    def __init__(self, *, max_turns: int, split: Split = "train") -> None:
        """Set the spaces and the number of turns.

        Raises:
            SetupError: if ``max_turns`` is below 1 or ``split`` is unknown.
        """
        if max_turns < 1:
            raise SetupError(f"max_turns is {max_turns}; an episode needs at least 1 turn")
        if split not in ("train", "eval"):
            raise SetupError(f"split is {split!r}; it must be 'train' or 'eval'")
        self.max_turns = max_turns
        self.split: Split = split
        self.action_space = TextSpace()
        self.observation_space = MessagesSpace()
        self._open = False
        self._return = 0.0

    # What a subclass writes.

    @abstractmethod
    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split, as a sequence that may load lazily. Loaded data is shared within a process."""

    @abstractmethod
    def open(self, task: Task) -> Observation:
        """Start an episode: set the env's own state for ``task`` and return the first messages."""

    @abstractmethod
    def respond(self, action: str) -> Reply:
        """Judge one action. Reads this action only, never an earlier turn's text or text of the env's own."""

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        """Play the current task as a scripted expert: yield one action after another.

        The generator is resumed after each ``step``, so it may look at the env. Optional; raises
        ``NotImplementedError`` where an env has none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no scripted expert (demonstrate)")

    # What every env does alike.

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode and return its first messages.

        Args:
            seed: seeds ``self.np_random``, from which everything random in the episode is drawn.
            options: ``{"task": Task}`` plays that task; without it one is drawn from ``tasks(self.split)``.
        """
        super().reset(seed=seed)
        self.task = (options or {}).get("task") or self._draw_task()
        self.turn = 0
        self._open = False  # an episode may be abandoned half way
        self._return = 0.0
        observation = self.open(self.task)
        self._open = True
        return observation, {"task_id": self.task.id}

    def _draw_task(self) -> Task:
        tasks = self.tasks(self.split)
        return tasks[int(self.np_random.integers(len(tasks)))]

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play one action.

        Returns:
            The new messages; the reward of this action; ``terminated``; ``truncated``, always False here since an
            env has no limit from outside; and ``info`` with ``reward_terms``, and at the end also ``success``
            and ``metrics``.

        Raises:
            ResetNeeded: before the first ``reset`` and after the end of an episode.
            RewardError: if the env's own reward is not finite or leaves ``reward_range``.
        """
        if not self._open:
            raise ResetNeeded("the episode is over (or none was started): call reset() before step()")
        reply = self.respond(action)
        self.turn += 1
        reward = float(reply.reward)
        self._check(reward)
        self._return += reward
        terminated = reply.done or self.turn >= self.max_turns
        info: dict[str, Any] = {"reward_terms": dict(reply.reward_terms)}
        if terminated:
            self._open = False
            info |= {"success": reply.success, "metrics": {"turns": float(self.turn), **reply.metrics}}
        return reply.observation, reward, terminated, False, info

    def _check(self, reward: float) -> None:
        low, high = self.reward_range
        slack = 1e-9 * max(1.0, abs(low), abs(high))  # a sum of floats may land just beside the bound
        total = self._return + reward
        name = type(self).__name__
        if not math.isfinite(reward):
            raise RewardError(
                f"{name} gave the reward {reward} at turn {self.turn}; rewards must be finite", reward
            )
        if not (low - slack <= reward <= high + slack and low - slack <= total <= high + slack):
            raise RewardError(
                f"{name} gave {reward} (sum {total}), outside its reward_range ({low}, {high})", reward
            )

    @property
    def turns_left(self) -> int:
        """Actions that are left after the one being judged; inside ``open``, all of them."""
        return self.max_turns - self.turn if not self._open else self.max_turns - self.turn - 1
