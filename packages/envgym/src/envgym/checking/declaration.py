"""Checks of what an env declares about itself, and of its tasks."""

import math
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import cast, get_args

from envgym.checking.episode import items_of, shorten
from envgym.checking.report import Fault, NotApplicable
from envgym.checking.subject import Subject
from envgym.env import Isolation, Split, TextEnv
from envgym.errors import SetupError
from envgym.messages import Task

LOOKED_AT = 1_000
"""Tasks per split whose ids are compared; more would load all of a large data set."""
INSTANCES = 60
INSTANCE_COST_S = 1e-3


def builds(subject: Subject) -> None:
    """The env can be built from its arguments, and is a TextEnv."""
    try:
        env = subject.env
    except Exception as error:
        raise Fault(f"building it raised {type(error).__name__}: {shorten(str(error), 500)}") from error
    if not isinstance(cast(object, env), TextEnv):
        raise Fault(f"it built a {type(env).__name__}, which is not an envgym.TextEnv")


def declarations(subject: Subject) -> None:
    """Version, isolation, deadline, reward range and stop strings are declared, and make sense."""
    if wrong := list(_wrong_declarations(subject.env)):
        raise Fault("\n".join(wrong))


def _wrong_declarations(env: TextEnv) -> Iterator[str]:
    low, high = env.reward_range
    if not isinstance(cast(object, env.version), str) or not env.version:
        yield f"version is {env.version!r}; it must be a text"
    if env.isolation not in get_args(Isolation):
        yield f"isolation is {env.isolation!r}; it must be one of {', '.join(get_args(Isolation))}"
    if not 0 < env.deadline_s < math.inf:
        yield f"deadline_s is {env.deadline_s}; it must be a number of seconds"
    if not -math.inf < low < high < math.inf:
        yield f"reward_range is ({low}, {high}); it must be finite and rising"
    if not _are_stop_strings(env.stop_strings):
        yield f"stop_strings is {env.stop_strings!r}; it must be a tuple of texts, none of them empty"


def _are_stop_strings(value: object) -> bool:
    stops = items_of(value)
    return isinstance(value, tuple) and all(isinstance(stop, str) and stop for stop in stops)


def tasks(subject: Subject) -> None:
    """Both splits have tasks, which stay the same when asked for again, with ids that occur once."""
    ids = {split: _ids_of(subject.tasks(split), split) for split in get_args(Split)}
    shared = set(ids["train"]) & set(ids["eval"])
    if shared:
        raise Fault(f"train and eval share tasks, among them {sorted(shared)[0]!r}")
    if any(_ids_of(subject.tasks(split, subject.build()), split) != ids[split] for split in get_args(Split)):
        raise Fault("another instance has other tasks, or has them in another order")


def _ids_of(found: Sequence[Task], split: Split) -> list[str]:
    if len(found) == 0:
        raise Fault(f"the split {split!r} has no tasks")
    ids: list[str] = []
    for task in islice((found[index] for index in range(len(found))), LOOKED_AT):
        if not isinstance(cast(object, task), Task):
            raise Fault(f"the split {split!r} holds a {type(task).__name__}, which is not an envgym.Task")
        ids.append(task.id)
    if len(set(ids)) < len(ids):
        twice = next(task_id for task_id in ids if ids.count(task_id) > 1)
        raise Fault(f"the id {twice!r} occurs more than once in {split!r}")
    return ids


def task_option(subject: Subject) -> None:
    """``reset(options={"task": task})`` plays that task, and ``info`` names it."""
    for sample in subject.samples:
        env = subject.build()
        with subject.watched("reset with a task"):
            _, info = env.reset(seed=sample.seed, options={"task": sample.task})
        if env.task.id != sample.task.id or info.get("task_id") != sample.task.id:
            raise Fault(f"given {sample}, it plays {env.task.id!r} and info says {info.get('task_id')!r}")


def max_turns(subject: Subject) -> None:
    """The argument ``max_turns`` is the number of turns: nothing overrides it."""
    if not subject.source.takes_max_turns:
        raise NotApplicable("max_turns is not an argument of what builds the env")
    for wanted in (subject.env.max_turns + 1, subject.env.max_turns + 3):
        try:
            env = subject.source.build(max_turns=wanted)
        except SetupError as error:
            raise NotApplicable(f"max_turns={wanted} is refused: {error}") from error
        if env.max_turns != wanted:
            raise Fault(f"built with max_turns={wanted}, its max_turns is {env.max_turns}")


def instance_cost(subject: Subject) -> None:
    """One more instance costs under 1 ms: what is loaded is loaded once."""
    costs: list[float] = []
    for _ in range(INSTANCES):
        start = time.perf_counter()
        env = subject.source.build()
        costs.append(time.perf_counter() - start)
        env.close()
    usual = sorted(costs)[INSTANCES // 4]  # the lower quartile: a busy machine adds, it never takes away
    if usual >= INSTANCE_COST_S:
        raise Fault(f"one more instance took {1e3 * usual:.1f} ms")
