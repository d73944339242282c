"""Checks that play the same episodes again, elsewhere or otherwise, and compare every word."""

import pickle
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from envgym.checking.episode import Episode, shorten
from envgym.checking.report import Fault
from envgym.checking.strategy import FILLER
from envgym.checking.subject import Subject, says
from envgym.env import TextEnv

INTERLEAVED = 16
SEEDS = 32


def seeds(subject: Subject) -> None:
    """The same seed and actions give the same episode; different seeds draw different tasks."""
    if difference := difference_of_episodes(subject.compared(), subject.compared()):
        raise Fault(f"played twice: {difference}")
    drawn = {_drawn_task(subject.build(), seed) for seed in range(SEEDS)}
    if len(drawn) == 1 and len(subject.env.tasks(subject.env.split)) > 1:
        raise Fault(f"{SEEDS} seeds all drew the task {drawn.pop()!r}")


def _drawn_task(env: TextEnv, seed: int) -> str:
    env.reset(seed=seed)
    return env.task.id


def fresh_start(subject: Subject) -> None:
    """An env that was played before plays the next episode as a new one does."""
    env = subject.build()
    if difference := difference_of_episodes(subject.compared(), subject.compared(env)):
        raise Fault(f"played on one env, one episode after another: {difference}")


def many_instances(subject: Subject) -> None:
    """Many instances, played in turns, do not disturb each other."""
    alone = [_play_in_turns([subject.build()], [seed]) for seed in range(INTERLEAVED)]
    together = _play_in_turns([subject.build() for _ in range(INTERLEAVED)], range(INTERLEAVED))
    for seed, lines in enumerate(alone):
        if difference := first_difference(lines, together[seed::INTERLEAVED]):
            raise Fault(f"seed {seed} among {INTERLEAVED} instances: {difference}")


def _play_in_turns(envs: Sequence[TextEnv], seeds: Iterable[int]) -> list[str]:
    """Reset all envs, then give all of them a turn, until the turns are used up: a line per env and round."""
    lines = [_line(*env.reset(seed=seed)) for env, seed in zip(envs, seeds, strict=True)]
    over = [False] * len(envs)
    for turn in range(envs[0].max_turns):
        for index, env in enumerate(envs):
            if over[index]:
                lines.append("over")
                continue
            result = env.step(FILLER if turn % 2 else "<")
            over[index] = result[2] or result[3]
            lines.append(_line(*result))
    for env in envs:
        env.close()
    return lines


def pickling(subject: Subject) -> None:
    """An env can be pickled before, within and after an episode, and goes on from there."""
    sample = subject.samples[0]
    episode = subject.expert[0] if subject.has_expert else subject.play(says(FILLER), "a wrong action", sample)
    env = _copied(subject.build(), "before an episode")
    with subject.watched("reset of an unpickled env"):
        lines = [_line(*env.reset(seed=sample.seed, options={"task": sample.task}))]
    for step in episode.steps:
        env = _copied(env, "within an episode")
        with subject.watched("step of an unpickled env"):
            lines.append(_line(*env.step(step.action)))
    _copied(env, "after an episode").close()
    if difference := first_difference(transcript(episode), lines):
        raise Fault(f"pickled and unpickled before each call: {difference}")


def _copied(env: TextEnv, when: str) -> TextEnv:
    try:
        return pickle.loads(pickle.dumps(env))
    except Exception as error:
        raise Fault(f"{when}: {type(error).__name__}: {shorten(str(error))}") from error


def difference_of_episodes(one: Sequence[Episode], other: Sequence[Episode]) -> str | None:
    """Where two recordings of the same episodes part, in words, or None."""
    for left, right in zip_longest(one, other):
        if left is None or right is None:
            return f"{len(one)} episodes against {len(other)}"
        if difference := first_difference(transcript(left), transcript(right)):
            return f"{left.name}: {difference}"
    return None


def transcript(episode: Episode) -> list[str]:
    """All that an episode showed, call by call, as text; the order of keys and sets is part of it."""
    lines = [_line(episode.opening, episode.opening_info)]
    for step in episode.steps:
        lines.append(_line(step.observation, step.reward, step.terminated, step.truncated, step.info))
    return lines if episode.crash is None else [*lines, str(episode.crash)]


def _line(*returned: object) -> str:
    return " ".join(map(repr, returned))


def first_difference(one: Sequence[str], other: Sequence[str]) -> str | None:
    """The first call whose line differs, with both texts around the place, or None."""
    for call, (left, right) in enumerate(zip_longest(one, other, fillvalue="(nothing)")):
        if left != right:
            return f"{'reset' if call == 0 else f'step {call}'} differs: {_around_difference(left, right)}"
    return None


def _around_difference(left: str, right: str) -> str:
    """Both texts from a little in front of where they part."""
    at = next((index for index, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, at - 20)
    return f"{shorten(left[start:], 60)!r} against {shorten(right[start:], 60)!r}"
