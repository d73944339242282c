# pyright: strict
"""Which tasks are played when, as a function of (seed, position): nothing to save, nothing to lose on a resume."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from envgym_generator.types import RolloutRequest


def train_requests(
    step: int,
    *,
    seed: int,
    weights: Mapping[str, float],
    num_tasks: Mapping[str, int],
    tasks_per_step: int,
    group_size: int,
) -> tuple[RolloutRequest, ...]:
    """The rollouts of one training step: whole groups, in order.

    Tasks come from endless shuffled epochs of each env's training split; envs alternate by weight. A task that
    comes twice in a step makes one group of twice the size.

    Args:
        step: from 1.
        seed: of the run.
        weights: each env's share, relative to the others'.
        num_tasks: the size of each env's training split.
        tasks_per_step: tasks drawn in a step.
        group_size: rollouts of each.
    """
    seen: Counter[tuple[str, int]] = Counter()
    requests: list[RolloutRequest] = []
    for position in range((step - 1) * tasks_per_step, step * tasks_per_step):
        env, number = env_at(position, weights)
        task = task_at(number, env, num_tasks[env], seed)
        for _ in range(group_size):
            sample = seen[env, task]
            seen[env, task] += 1
            requests.append(_request(env, "train", task, sample, seed, step))
    return tuple(requests)


def eval_requests(
    *, seed: int, num_tasks: Mapping[str, int], tasks: int, samples: int
) -> tuple[RolloutRequest, ...]:
    """The rollouts of an evaluation: the same ones at every step.

    Args:
        seed: of the choice of tasks and of sampling.
        num_tasks: the size of each env's eval split.
        tasks: how many of each env are played; all, where it has fewer.
        samples: rollouts of each.
    """
    return tuple(
        _request(env, "eval", task, sample, seed, step=0)
        for env in sorted(num_tasks)
        for task in sorted(_shuffled(num_tasks[env], seed, env, epoch=0)[:tasks])
        for sample in range(samples)
    )


def env_at(position: int, weights: Mapping[str, float]) -> tuple[str, int]:
    """The env of a position, and how many earlier positions were that env's.

    Shares are exact up to rounding at every position: the first env gets its share of all positions, the second
    its share of the rest, and so on.
    """
    names = sorted(weights)
    remaining = sum(weights[name] for name in names)
    for name in names[:-1]:
        share = weights[name] / remaining
        before, after = (math.floor(count * share + 0.5) for count in (position, position + 1))
        if after > before:
            return name, before
        position -= before
        remaining -= weights[name]
    return names[-1], position


def task_at(number: int, env: str, num_tasks: int, seed: int) -> int:
    """The index of the ``number``-th task drawn from an env: epoch after epoch, each shuffled anew."""
    epoch, offset = divmod(number, num_tasks)
    return _shuffled(num_tasks, seed, env, epoch)[offset]


@lru_cache(maxsize=64)
def _shuffled(num_tasks: int, seed: int, env: str, epoch: int) -> tuple[int, ...]:
    rng = np.random.default_rng(number_from("tasks", seed, env, epoch))
    return tuple(int(index) for index in rng.permutation(num_tasks))


def _request(env: str, split: str, task: int, sample: int, seed: int, step: int) -> RolloutRequest:
    rollout_seed = number_from("rollout", seed, split, step, env, task, sample)
    return RolloutRequest(env=env, split=split, task_index=task, sample_index=sample, seed=rollout_seed)


def number_from(*facts: str | int) -> int:
    """A number below 2^63 that depends on nothing but the facts, in any process."""
    digest = hashlib.sha256(repr(facts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
