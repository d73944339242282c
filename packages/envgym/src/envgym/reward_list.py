"""The ``rewards`` argument of an env: ``[{name, weight, kwargs}, …]``, made into one reward function."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from envgym.errors import SetupError
from envgym.rewards.combine import CombinedReward, combine_reward_functions
from envgym.rewards.outcome import Outcome, RewardFunction
from envgym.rewards.registry import load_reward

RewardEntry = Mapping[str, Any]
"""``name`` (registered, or a dotted path), ``weight`` (default 1) and ``kwargs`` (default none)."""


def load_reward_list(
    entries: Sequence[RewardEntry],
    defaults: Mapping[str, Any] | None = None,
    own: Mapping[str, RewardFunction] | None = None,
) -> CombinedReward:
    """Build the weighted mean of a list of rewards.

    Args:
        entries: see ``RewardEntry``. Terms are reported under the names.
        defaults: keyword arguments, such as the env's tag names, for those functions that take them and whose
            entry does not give them.
        own: rewards that the env itself gives, by name. They take no kwargs.

    Raises:
        SetupError: for an entry of another shape, an unknown name or argument, or weights that do not add up.

    >>> both = load_reward_list([{"name": "format"}, {"name": "exact_alnum", "weight": 3}])
    >>> both("cube", "<answer>cube</answer>").terms
    {'format': 0.75, 'exact_alnum': 1.0}
    """
    if isinstance(entries, str | Mapping) or not entries:
        raise SetupError(f"rewards is {entries!r}; it must be a list such as [{{name: exact_match, weight: 1}}]")
    functions = [(_load(entry, defaults or {}, own or {}), _weight(entry)) for entry in entries]
    names = tuple(str(entry["name"]) for entry in entries)
    if len(set(names)) < len(names):
        raise SetupError(f"rewards holds a name twice ({', '.join(names)}); a term is reported under its name")
    try:
        return replace(combine_reward_functions(functions), names=names)
    except ValueError as error:
        raise SetupError(f"rewards: {error}") from error


def _load(entry: RewardEntry, defaults: Mapping[str, Any], own: Mapping[str, RewardFunction]) -> RewardFunction:
    unknown = set(entry) - {"name", "weight", "kwargs"}
    if unknown or not isinstance(entry.get("name"), str):
        raise SetupError(f"a reward is {dict(entry)}; it must have a name, and may have a weight and kwargs")
    given = cast("Mapping[str, Any]", entry.get("kwargs") or {})
    if entry["name"] in own:
        if given:
            raise SetupError(f"reward {entry['name']!r} is set by the env's own arguments, not by kwargs")
        return own[entry["name"]]
    function = load_reward(entry["name"], given)
    taken = inspect.signature(function).parameters
    added = {name: value for name, value in defaults.items() if name in taken and name not in given}
    return partial(function, **added) if added else function


def _weight(entry: RewardEntry) -> float:
    weight = entry.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
        raise SetupError(
            f"the weight of reward {entry['name']!r} is {weight!r}; it must be a number of at least 0"
        )
    return float(weight)


def best_outcome(score: RewardFunction, ground_truths: Sequence[Any], response: str) -> Outcome:
    """Score against each of several accepted answers and keep the best; a right one beats a higher reward."""
    outcomes = [cast("Outcome", score(ground_truth, response)) for ground_truth in ground_truths]
    return max(outcomes, key=lambda outcome: (outcome.verdict is True, outcome.reward))
