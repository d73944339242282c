"""Adding several rewards up."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from envgym.rewards.outcome import Outcome, RewardFunction, Status, as_outcome


@dataclass(frozen=True, slots=True)
class CombinedReward:
    """The weighted mean of several reward functions; itself a reward function."""

    names: tuple[str, ...]
    functions: tuple[RewardFunction, ...]
    weights: tuple[float, ...]
    """They sum to 1."""

    def __call__(self, ground_truth: Any, response: str) -> Outcome:
        """Score with every function.

        Returns:
            The weighted mean of the rewards; a verdict that is true if all that vote say so and None if nobody
            votes; the first status that is not ``ok``; each function's own reward as a term.
        """
        parts = [as_outcome(function(ground_truth, response)) for function in self.functions]
        votes = [part.verdict for part in parts if part.verdict is not None]
        failures: list[Status] = [part.status for part in parts if part.status != "ok"]
        return Outcome(
            math.fsum(weight * part.reward for weight, part in zip(self.weights, parts, strict=True)),
            all(votes) if votes else None,
            failures[0] if failures else "ok",
            dict(zip(self.names, (part.reward for part in parts), strict=True)),
        )


def combine_reward_functions(reward_functions: Sequence[tuple[RewardFunction, float]]) -> CombinedReward:
    """Build one reward function from ``[(function, weight), …]``. Weights are divided by their sum.

    A function's keyword arguments are bound with `functools.partial`.

    Raises:
        ValueError: if there is no function, if a weight is negative or not finite, or if all are zero.

    >>> from envgym.rewards import exact_answer_alphanumeric_reward, format_reward
    >>> both = combine_reward_functions([(format_reward, 1), (exact_answer_alphanumeric_reward, 3)])
    >>> both("cube", "<answer>cube</answer>").reward
    0.9375
    """
    if not reward_functions:
        raise ValueError("reward_functions is empty; give at least one (function, weight)")
    weights = [_checked(weight) for _, weight in reward_functions]
    largest = max(weights)
    if largest == 0:
        raise ValueError("every weight is 0; at least one must be positive")
    # Scaled first, so that weights near the largest float do not add up to infinity.
    scaled = [weight / largest for weight in weights]
    functions = tuple(function for function, _ in reward_functions)
    return CombinedReward(
        names=_distinct(_name(function) for function in functions),
        functions=functions,
        weights=tuple(weight / math.fsum(scaled) for weight in scaled),
    )


def _checked(weight: float) -> float:
    if not math.isfinite(weight) or weight < 0:
        raise ValueError(f"a weight is {weight}; it must be finite and not negative")
    return float(weight)


def _name(function: RewardFunction) -> str:
    if isinstance(function, partial):
        return _name(function.func)
    if isinstance(function, CombinedReward):
        return "combined"
    name: str = getattr(function, "__name__", type(function).__name__)
    return name.removesuffix("_reward")


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Number the second and later uses of a name: ``f, f_2, f_3``."""
    seen: list[str] = []
    for name in names:
        candidate, count = name, 1
        while candidate in seen:
            count += 1
            candidate = f"{name}_{count}"
        seen.append(candidate)
    return tuple(seen)
