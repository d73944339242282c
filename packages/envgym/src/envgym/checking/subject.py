"""The env under check: sample tasks, and episodes that are played on them once and judged by many checks."""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from envgym.checking.episode import Actions, Episode, play
from envgym.checking.report import NotApplicable
from envgym.checking.source import Source
from envgym.checking.strategy import FILLER, GARBAGE, STOCK, Seen, malformed
from envgym.env import Split, TextEnv
from envgym.messages import Task

START_S = 120.0
"""Seconds for building an env, which may load what all envs share, and for starting a process."""
TASKS_PER_SPLIT = 4
DRAWN = 8
"""Episodes whose task is left to ``reset``."""

_PAIR = re.compile(r"<([A-Za-z][A-Za-z0-9_-]{0,40})>")


@dataclass(frozen=True, kw_only=True, slots=True)
class CallStarted:
    """A call of the env begins now, and may take so long."""

    call: str
    allowed_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CallEnded:
    """The call is over."""


CallEvent = CallStarted | CallEnded


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One task to play."""

    split: Split
    task: Task
    seed: int

    def __str__(self) -> str:
        return f"task {self.task.id!r} of {self.split}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stocked:
    """The expert's episode on a task, and what each stock strategy came to on the same task."""

    expert: Episode
    others: tuple[Episode, ...]


class Subject:
    """Builds the env, chooses tasks, plays. Everything is done once, when it is first asked for."""

    def __init__(self, source: Source, report: Callable[[CallEvent], None]) -> None:
        self.source = source
        self.report = report

    @contextmanager
    def watched(self, call: str, allowed_s: float | None = None) -> Generator[None]:
        """Report beginning and end of a call. It may take ``allowed_s``, by default the env's ``deadline_s``."""
        self.report(CallStarted(call=call, allowed_s=self.env.deadline_s if allowed_s is None else allowed_s))
        try:
            yield
        finally:
            self.report(CallEnded())

    def build(self) -> TextEnv:
        """Build one env."""
        with self.watched("building the env", START_S):
            return self.source.build()

    @cached_property
    def env(self) -> TextEnv:
        """An env to ask about its declarations and tasks, never played."""
        return self.build()

    @cached_property
    def has_expert(self) -> bool:
        """Whether the env offers ``demonstrate``, for all of the samples."""
        if type(self.env).demonstrate is TextEnv.demonstrate:
            return False
        return all(self._is_demonstrated(sample) for sample in self.samples)

    def _is_demonstrated(self, sample: Sample) -> bool:
        crash = self.play(lambda env: islice(demonstrated(sample.seed)(env), 1), "expert", sample).crash
        return crash is None or crash.kind != NotImplementedError.__name__

    def tasks(self, split: Split, env: TextEnv | None = None) -> Sequence[Task]:
        """The tasks of a split, from this env or from the one that is never played."""
        with self.watched(f"tasks({split!r})", START_S):
            return (env or self.env).tasks(split)

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """A few tasks of each split, spread evenly."""
        return tuple(
            Sample(split=split, task=task, seed=1_000 + number)
            for split in ("train", "eval")
            for number, task in enumerate(spread(self.tasks(split), TASKS_PER_SPLIT))
        )

    def play(self, actions: Actions, name: str, sample: Sample | None = None, seed: int = 0) -> Episode:
        """Play one episode on an env of its own, on a sample or on the task that the seed draws."""
        env = self.build()
        try:
            return self.play_on(env, actions, name, sample, seed)
        finally:
            with self.watched("close()"):
                env.close()

    def play_on(
        self, env: TextEnv, actions: Actions, name: str, sample: Sample | None = None, seed: int = 0
    ) -> Episode:
        """Play one episode on this env."""
        if sample is None:
            return play(env, actions, watch=self.watched, name=f"{name}, seed {seed}", seed=seed)
        name = f"{name} on {sample}"
        return play(env, actions, watch=self.watched, name=name, task=sample.task, seed=sample.seed)

    # Episodes.

    @cached_property
    def empty(self) -> tuple[Episode, ...]:
        """Nothing but empty actions, on every sample and on drawn tasks."""
        played = [self.play(says(""), "empty actions", sample) for sample in self.samples]
        drawn = [self.play(says(""), "empty actions", seed=seed) for seed in range(DRAWN)]
        return (*played, *drawn)

    @cached_property
    def garbage(self) -> tuple[Episode, ...]:
        """All of ``GARBAGE``, in as many episodes as that takes."""
        return tuple(self._spread_over_episodes(GARBAGE, "garbage"))

    @cached_property
    def malformed(self) -> tuple[Episode, ...]:
        """All nearly well-formed actions, in as many episodes as that takes."""
        return tuple(self._spread_over_episodes(malformed(self.tags), "malformed actions"))

    def _spread_over_episodes(self, actions: Sequence[str], name: str) -> Iterator[Episode]:
        samples = self.samples
        position = number = 0
        while position < len(actions) and samples:
            episode = self.play(says(*actions[position:]), name, samples[number % len(samples)])
            position += max(1, len(episode.steps) + (episode.crash is not None))
            number += 1
            yield episode

    @cached_property
    def expert(self) -> tuple[Episode, ...]:
        """The scripted expert on every sample; none where the env has no expert."""
        if not self.has_expert:
            return ()
        return tuple(self.play(demonstrated(sample.seed), "expert", sample) for sample in self.samples)

    def require_expert(self) -> tuple[Episode, ...]:
        """The expert's episodes.

        Raises:
            NotApplicable: where the env has no expert.
        """
        if not self.expert:
            raise NotApplicable("there is no scripted expert (demonstrate) for these tasks")
        return self.expert

    @cached_property
    def stock(self) -> tuple[Stocked, ...]:
        """The stock strategies, on every sample that the expert was rewarded for."""
        return tuple(
            Stocked(expert=episode, others=tuple(self._play_stock(episode, sample)))
            for episode, sample in zip(self.expert, self.samples, strict=bool(self.expert))
            if episode.ended and episode.total > self.env.reward_range[0]
        )

    def _play_stock(self, expert: Episode, sample: Sample) -> Iterator[Episode]:
        seen = Seen(
            expert=tuple(step.action for step in expert.steps),
            opening="\n".join(message.text for message in expert.messages[:4]),
            tags=self.tags,
            max_turns=expert.max_turns,
        )
        for strategy in STOCK:
            yield self.play(says(*strategy(seen)), strategy.__name__, sample)

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """Names of the tags that env and expert use: those of the stop strings, and of complete pairs seen."""
        texts = [message.text for episode in (*self.expert, *self.empty) for message in episode.messages]
        texts += [step.action for episode in self.expert for step in episode.steps]
        closers = (stop[2:-1] for stop in self.env.stop_strings if stop.startswith("</"))
        return tuple(dict.fromkeys([*closers, *(name for text in texts for name in paired_tags(text))]))

    # Episodes that are compared.

    def compared(self, env: TextEnv | None = None) -> list[Episode]:
        """Episodes of all kinds, meant to come out the same whenever and wherever they are played.

        Args:
            env: plays all of them, one after another; by default each has an env of its own.
        """
        wrong = says(FILLER, "<", "")
        name = "wrong actions"
        episodes = [self._replay(env, wrong, name, None, seed) for seed in range(DRAWN)]
        for sample in self.samples:
            episodes.append(self._replay(env, wrong, name, sample))
            if self.has_expert:
                episodes.append(self._replay(env, demonstrated(sample.seed), "expert", sample))
        return episodes

    def _replay(
        self, env: TextEnv | None, actions: Actions, name: str, sample: Sample | None, seed: int = 0
    ) -> Episode:
        if env is None:
            return self.play(actions, name, sample, seed)
        return self.play_on(env, actions, name, sample, seed)


def spread(tasks: Sequence[Task], count: int) -> list[Task]:
    """At most ``count`` tasks, evenly spread, the first and the last among them."""
    count = min(count, len(tasks))
    return [tasks[round(index * (len(tasks) - 1) / max(1, count - 1))] for index in range(count)]


def says(*actions: str) -> Actions:
    """Play these actions, then the last one again for as long as the episode goes on."""

    def act(env: TextEnv) -> Iterable[str]:
        yield from actions
        while True:
            yield actions[-1]

    return act


def demonstrated(seed: int) -> Actions:
    """Play as the env's own expert does."""

    def act(env: TextEnv) -> Iterable[str]:
        return env.demonstrate(np.random.default_rng(seed))

    return act


def paired_tags(text: str) -> list[str]:
    """Names of the tags of which the text holds a complete pair, in order of appearance.

    >>> paired_tags("<a>x</a> <b> <c>y</c>")
    ['a', 'c']
    """
    names = dict.fromkeys(match.group(1) for match in _PAIR.finditer(text))
    return [name for name in names if f"</{name}>" in text]
