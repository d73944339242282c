"""Checks of the gymnasium.Env interface."""

import warnings
from typing import Any

from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from envgym.checking.episode import shorten
from envgym.checking.report import Fault
from envgym.checking.subject import Subject
from envgym.env import TextEnv


def step_after_end(subject: Subject) -> None:
    """``step`` raises ResetNeeded before the first ``reset`` and after the end."""
    env = subject.build()
    _require_refusal(env, "before the first reset")
    env.reset(seed=0)
    for _ in range(env.max_turns):
        if env.step("")[2]:
            break
    for time in ("after the end", "after the end, again,"):
        _require_refusal(env, time)
    env.close()


def _require_refusal(env: TextEnv, time: str) -> None:
    try:
        env.step("")
    except ResetNeeded:
        return
    except Exception as error:
        raise Fault(f"step {time} raised {type(error).__name__} instead of gymnasium's ResetNeeded") from error
    raise Fault(f"step {time} went through instead of raising gymnasium's ResetNeeded")


def gymnasium_checker(subject: Subject) -> None:
    """Gymnasium's own ``check_env`` accepts the env."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its hints about registration and render modes
        try:
            gymnasium_check_env(subject.build(), skip_render_check=True)
        except Exception as error:
            raise Fault(f"{type(error).__name__}: {shorten(str(error), 400)}") from error


def vector_envs(subject: Subject) -> None:
    """Gymnasium's SyncVectorEnv and AsyncVectorEnv(shared_memory=False) play two copies alike."""
    builders = [subject.source.build] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            in_turns = _play_vector(SyncVectorEnv(builders))
            at_once = _play_vector(AsyncVectorEnv(builders, shared_memory=False))
        except Exception as error:
            raise Fault(f"{type(error).__name__}: {shorten(str(error), 400)}") from error
    if in_turns != at_once:
        raise Fault("the two kinds of vector env gave different episodes for the same seeds and actions")


def _play_vector(envs: VectorEnv[Any, Any, Any]) -> list[str]:
    try:
        shown = [repr(envs.reset(seed=1)[0])]
        for _ in range(3):
            observation, rewards, *_ = envs.step(("", "zq"))
            shown.append(f"{observation!r} {rewards!r}")
        return shown
    finally:
        envs.close()
