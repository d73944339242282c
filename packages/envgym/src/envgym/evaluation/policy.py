"""Policies: what a model, an expert or a random player says next."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from envgym.env import TextEnv
from envgym.errors import SetupError
from envgym.messages import Message
from envgym.spaces import TextSpace

Actor = Callable[[Sequence[Message]], str]
"""Gives the next action for the conversation so far, its own actions included."""

Policy = Callable[[TextEnv, int], Actor]
"""Gives an actor for one episode, from the env (which was reset already) and a seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """What a model is asked for besides the text."""

    temperature: float = 1.0
    max_tokens: int = 1024
    """Most tokens of one action."""
    timeout_s: float = 120.0
    """For one action."""


def expert(env: TextEnv, seed: int) -> Actor:
    """The env's own scripted expert; it says nothing more once its script is over.

    The actor raises ``SetupError`` where the env has no expert, or none for these tasks.
    """
    script = _script(env, seed)
    return lambda messages: next(script, "")


def _script(env: TextEnv, seed: int) -> Iterator[str]:
    try:
        yield from env.demonstrate(np.random.default_rng(seed))
    except NotImplementedError as error:
        raise SetupError(f"{error}; play random or empty instead") from error


def random(env: TextEnv, seed: int) -> Actor:
    """Random printable text."""
    space = TextSpace(seed=seed)
    return lambda messages: space.sample()


def empty(env: TextEnv, seed: int) -> Actor:
    """Nothing, at every turn."""
    return lambda messages: ""


SCRIPTED: dict[str, Policy] = {"expert": expert, "random": random, "empty": empty}


def scripted_policy(name: str) -> Policy:
    """The scripted policy of this name.

    Raises:
        SetupError: for an unknown name.
    """
    if name not in SCRIPTED:
        raise SetupError(f"--policy is {name!r}; it must be one of {', '.join(SCRIPTED)}")
    return SCRIPTED[name]
