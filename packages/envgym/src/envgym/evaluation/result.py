"""What came out of playing: one episode, and the numbers over many."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from envgym.messages import Message
from envgym.wrappers import plain_message


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """An episode to be played."""

    split: str
    task_index: int
    sample_index: int
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """An episode that was played, or that failed for a reason that is not the policy's."""

    job: Job
    task_id: str = ""
    messages: tuple[Message, ...] = ()
    rewards: tuple[float, ...] = ()
    success: bool | None = None
    reward_terms: Mapping[str, float] = field(default_factory=dict[str, float])
    """Sums over the episode."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    error: str | None = None
    """The exception that broke it off. Such an episode counts as failed, never as one without reward."""

    @property
    def total(self) -> float:
        """The sum of its rewards."""
        return math.fsum(self.rewards)

    @property
    def solved(self) -> bool:
        """Its success; where the env has no such notion, whether the last turn was rewarded."""
        return self.success if self.success is not None else bool(self.rewards) and self.rewards[-1] > 0

    def as_json(self) -> dict[str, Any]:
        """The line that is written to a file."""
        return {
            "task_id": self.task_id,
            "split": self.job.split,
            "task_index": self.job.task_index,
            "sample_index": self.job.sample_index,
            "seed": self.job.seed,
            "return": self.total,
            "success": self.success,
            "rewards": list(self.rewards),
            "reward_terms": dict(self.reward_terms),
            "metrics": dict(self.metrics),
            "error": self.error,
            "messages": [plain_message(message) for message in self.messages],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Numbers over the episodes that did not fail."""

    episodes: int
    failed: int
    success_rate: float
    """Solved ÷ not failed."""
    standard_error: float
    """Of the success rate, over tasks: samples of one task are not independent."""
    pass_at_k: float
    """Share of tasks of which at least one sample was solved, among tasks with a sample that did not fail."""
    mean_return: float
    mean_turns: float
    reward_terms: Mapping[str, float]
    """Mean over episodes, a missing term counted as 0."""
    first_error: str | None


def summarise(results: Sequence[Result]) -> Summary:
    """Average over the episodes that did not fail. Means over none are NaN."""
    played = [result for result in results if result.error is None]
    by_task: dict[int, list[bool]] = {}
    for result in played:
        by_task.setdefault(result.job.task_index, []).append(result.solved)
    names = sorted({name for result in played for name in result.reward_terms})
    return Summary(
        episodes=len(results),
        failed=len(results) - len(played),
        success_rate=_mean([float(result.solved) for result in played]),
        standard_error=_standard_error([fmean(solved) for solved in by_task.values()]),
        pass_at_k=_mean([float(any(solved)) for solved in by_task.values()]),
        mean_return=_mean([result.total for result in played]),
        mean_turns=_mean([float(len(result.rewards)) for result in played]),
        reward_terms={name: _mean([result.reward_terms.get(name, 0.0) for result in played]) for name in names},
        first_error=next((result.error for result in results if result.error is not None), None),
    )


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan


def _standard_error(values: Sequence[float]) -> float:
    """Of the mean of independent values; NaN for fewer than two."""
    if len(values) < 2:
        return math.nan
    mean = fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
