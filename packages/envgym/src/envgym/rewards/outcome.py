"""What every reward function gives: a finite reward and a verdict, with how it came about."""

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

Status = Literal["ok", "no_answer", "unparseable", "bad_gold", "timeout", "error"]


class _Pair(NamedTuple):
    reward: float
    verdict: bool | None


class Outcome(_Pair):
    """The pair ``(reward, verdict)``, which also carries a status and the terms of the reward.

    It unpacks and compares as the plain pair that reward functions in this field return:

        >>> reward, correct = Outcome(0.0, False, status="no_answer")
        >>> (reward, correct)
        (0.0, False)

    Attributes:
        reward: a finite number.
        verdict: whether the answer is right; None where the reward does not judge that.
        status: ``ok`` where an answer was read and judged; ``no_answer`` where there was none; ``unparseable``
            where it could not be read; ``timeout`` where judging it took too long; ``error`` where judging it
            broke the process that judges. ``bad_gold`` is for a report: the functions raise ``BadGoldError``.
        terms: the parts of the reward by name, before any weight.

    Raises:
        ValueError: if the reward or a term is not finite.
    """

    status: Status
    terms: Mapping[str, float]

    def __new__(
        cls,
        reward: float,
        verdict: bool | None,
        status: Status = "ok",
        terms: Mapping[str, float] | None = None,
    ) -> "Outcome":
        """Check that the numbers are finite and build the pair."""
        for name, value in (("reward", reward), *(terms or {}).items()):
            if not math.isfinite(value):
                raise ValueError(f"{name} is {value}; a reward must be finite")
        outcome = super().__new__(cls, float(reward), verdict)
        outcome.status = status
        outcome.terms = dict(terms or {})
        return outcome

    def __reduce__(self) -> tuple[type["Outcome"], tuple[float, bool | None, Status, Mapping[str, float]]]:
        return Outcome, (self.reward, self.verdict, self.status, self.terms)

    def __repr__(self) -> str:
        return f"Outcome({self.reward!r}, {self.verdict!r}, status={self.status!r}, terms={self.terms!r})"


RewardFunction: TypeAlias = Callable[..., tuple[float, bool | None]]
"""``f(ground_truth: str, response: str, **kwargs) -> (reward, verdict)``. Ours give an `Outcome`."""


def as_outcome(pair: tuple[float, bool | None]) -> Outcome:
    """See what a reward function returned as an `Outcome`; a plain pair has status ``ok`` and no terms.

    Raises:
        ValueError: if it is not a pair of a finite number and True, False or None.
    """
    if isinstance(pair, Outcome):
        return pair
    reward, verdict = pair
    return Outcome(reward, None if verdict is None else bool(verdict))


def verdict_outcome(correct: bool) -> Outcome:
    """Give 1.0 for a right answer and 0.0 for a wrong one."""
    return Outcome(float(correct), correct)
