"""Playing episodes, several at once."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from envgym.env import Split, TextEnv
from envgym.errors import SetupError
from envgym.evaluation.policy import Policy
from envgym.evaluation.result import Job, Result
from envgym.messages import Message


def jobs_for(num_tasks: int, *, split: Split, tasks: int, samples: int, seed: int) -> list[Job]:
    """The first ``tasks`` tasks of a split, each ``samples`` times, every episode with a seed of its own."""
    return [
        Job(split=split, task_index=task, sample_index=sample, seed=_seed(seed, task, sample))
        for task in range(min(tasks, num_tasks))
        for sample in range(samples)
    ]


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1)[0] >> 1)


def play_all(
    build: Callable[[], TextEnv], policy: Policy, jobs: Sequence[Job], *, at_once: int
) -> Iterator[Result]:
    """Play all jobs, several at once, each on an env of its own, and yield their results in order.

    Raises:
        SetupError: as soon as one episode does; the others are given up.
    """
    pool = ThreadPoolExecutor(max_workers=at_once)
    try:
        yield from pool.map(partial(play_one, build, policy), jobs)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def play_one(build: Callable[[], TextEnv], policy: Policy, job: Job) -> Result:
    """Play one episode. What goes wrong in the env or on the way to the model is noted in the result."""
    env = build()
    try:
        return _play(env, policy, job)
    except SetupError:
        raise
    except Exception as error:  # one broken episode must not end the others
        return Result(job=job, error=f"{type(error).__name__}: {error}")
    finally:
        env.close()


def _play(env: TextEnv, policy: Policy, job: Job) -> Result:
    task = env.tasks("train" if job.split == "train" else "eval")[job.task_index]
    observation, _ = env.reset(seed=job.seed, options={"task": task})
    messages = list(observation)
    act = policy(env, job.seed)
    rewards: list[float] = []
    terms: dict[str, float] = {}
    while True:
        action = act(messages)
        observation, reward, terminated, truncated, info = env.step(action)
        messages += [Message(role="assistant", content=action), *observation]
        rewards.append(reward)
        for name, value in info["reward_terms"].items():
            terms[name] = terms.get(name, 0.0) + value
        if terminated or truncated:
            return Result(
                job=job,
                task_id=task.id,
                messages=tuple(messages),
                rewards=tuple(rewards),
                success=info["success"],
                reward_terms=terms,
                metrics=info["metrics"],
            )
