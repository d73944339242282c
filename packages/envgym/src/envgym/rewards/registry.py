"""Rewards by name: what an env's configuration says instead of importing a function."""

import inspect
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, cast

from envgym.errors import SetupError
from envgym.rewards.outcome import RewardFunction

REWARDS: dict[str, str] = {
    "bbox_giou": "envgym.rewards.bbox:bbox_giou_reward",
    "cover_match": "envgym.rewards.short_answer:cover_match_reward",
    "exact_alnum": "envgym.rewards.exact_alphanumeric:exact_answer_alphanumeric_reward",
    "exact_match": "envgym.rewards.short_answer:exact_match_reward",
    "execution_match": "envgym.rewards.execution:execution_match_reward",
    "f1": "envgym.rewards.short_answer:f1_reward",
    "final_number": "envgym.rewards.final_number:final_number_reward",
    "format": "envgym.rewards.format:format_reward",
    "geo3k": "envgym.rewards.geo3k:geo3k_reward",
    "math_expr": "envgym.rewards.math_expression:math_expression_reward",
}
"""Name to ``package.module:function``. A function is imported when it is first asked for."""


def reward_names() -> tuple[str, ...]:
    """Every registered name, sorted."""
    return tuple(sorted(REWARDS))


def load_reward(name: str, kwargs: Mapping[str, Any] | None = None) -> RewardFunction:
    """Find a reward by registered name, ``package.module:function`` or ``package.module.function``.

    Args:
        name: the name or path.
        kwargs: keyword arguments to bind, checked by name against the function's signature.

    Raises:
        SetupError: if the name is unknown (the message lists the known ones), if it cannot be imported, or if the
            function does not take one of the arguments.

    >>> load_reward("format", {"think_tag": "plan"})("", "<plan>a</plan><answer>b</answer>").reward
    1.0
    """
    function = _imported(name, _path(name))
    if not kwargs:
        return function
    _check_arguments(name, function, kwargs)
    return partial(function, **kwargs)


def _path(name: str) -> str:
    if name in REWARDS:
        return REWARDS[name]
    if ":" in name:
        return name
    module, _, attribute = name.rpartition(".")
    if not module:
        raise SetupError(
            f"unknown reward {name!r}; the registered ones are {', '.join(reward_names())}; "
            "any other is named by package.module:function"
        )
    return f"{module}:{attribute}"


def _imported(name: str, path: str) -> RewardFunction:
    module, _, attribute = path.partition(":")
    try:
        function: object = inspect.getattr_static(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SetupError(f"reward {name!r} cannot be imported from {path}: {error}") from error
    if not callable(function):
        raise SetupError(f"reward {name!r} is {path}, which is not a function")
    return cast("RewardFunction", function)


def _check_arguments(name: str, function: RewardFunction, kwargs: Mapping[str, Any]) -> None:
    """Refuse keyword arguments that the function does not take behind its ground truth and response."""
    parameters = list(inspect.signature(function).parameters.values())[2:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [parameter.name for parameter in parameters]
    for given in kwargs:
        if given not in known:
            raise SetupError(f"reward {name!r} takes no {given!r}; it takes: {', '.join(known) or 'no arguments'}")
