"""Checks of what an env leaves behind: in its tasks, in the process, in random generators that others share."""

import os
import random
import threading
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np

from envgym.checking.report import Fault
from envgym.checking.strategy import FILLER
from envgym.checking.subject import Subject, says

WARM_UP = 4
ROUNDS = 24


def untouched_tasks(subject: Subject) -> None:
    """Playing leaves a task as it was: other episodes are played on the same one."""
    for sample in subject.samples:
        before = deepcopy((dict(sample.task.data), dict(sample.task.answer)))
        subject.play(says(FILLER, "<", ""), "wrong actions", sample)
        if (dict(sample.task.data), dict(sample.task.answer)) != before:
            raise Fault(f"after playing, {sample} is not what it was")


def global_random(subject: Subject) -> None:
    """Playing leaves the random generators that all of Python and numpy share as they were."""
    generators: dict[str, Callable[[], object]] = {
        "random": random.getstate,
        "numpy.random": lambda: repr(np.random.get_state()),
    }
    for name, state in generators.items():
        before = state()
        for sample in subject.samples[:2]:
            subject.play(says(FILLER), "wrong actions", sample)
        if state() != before:
            raise Fault(f"playing changes the state of the module {name}; draw from self.np_random")


def closing(subject: Subject) -> None:
    """``close`` may be called twice, and gives back files, threads and processes."""
    _open_and_close(subject, WARM_UP)  # what is kept once per process may stay
    before = _held()
    _open_and_close(subject, ROUNDS)
    for (what, count), (_, earlier) in zip(_held().items(), before.items(), strict=True):
        if count - earlier >= ROUNDS // 2:
            raise Fault(f"{ROUNDS} more instances left {count - earlier} more {what} behind")


def _open_and_close(subject: Subject, rounds: int) -> None:
    for seed in range(rounds):
        env = subject.build()
        with subject.watched("an episode that is closed half way"):
            env.reset(seed=seed)
            env.step(FILLER)
            env.close()
            env.close()


def _held() -> dict[str, int]:
    """What this process holds at the moment, by kind."""
    children = (task / "children" for task in Path("/proc/self/task").iterdir())
    return {
        "open files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "processes": sum(len(path.read_text().split()) for path in children),
    }
