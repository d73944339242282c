"""What a batch of rollouts amounts to, as named numbers. Pure functions; nothing here is logged.

``reward/*`` and ``env/<id>/*`` are over the rollouts that count: those that did not fail and that no filter
excluded. Means are per rollout unless the name says otherwise.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from envgym_generator.types import Rollout, Status, Turn

Metrics = dict[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """A rollout, and what the loop that played it knows beyond the contract."""

    rollout: Rollout
    num_sampled: int
    """Ids that the engine returned for it, counted as they arrived."""
    excluded: Mapping[str, int] = field(default_factory=dict[str, int])
    """Sampled ids that a filter kept out of the loss, by the filter's name."""
    failure_kind: str | None = None
    """For a failed rollout, what kind of thing broke."""


def batch_metrics(played: Sequence[Played]) -> Metrics:
    """Every metric of one ``GeneratorOutput``."""
    counted = [one.rollout for one in played if counts(one.rollout)]
    return {
        **reward_metrics(counted),
        **token_metrics(played),
        **rollout_metrics(played),
        **turn_metrics([turn for rollout in counted for turn in rollout.turns], len(counted)),
        **env_metrics(counted),
    }


def counts(rollout: Rollout) -> bool:
    """Whether a rollout enters reward statistics: it did not fail and no filter excluded it."""
    return rollout.status != "failed" and rollout.excluded_by is None


def succeeded(rollout: Rollout) -> bool:
    """The env's verdict; without one, whether the last turn earned something."""
    if rollout.success is not None:
        return rollout.success
    return bool(rollout.turns) and rollout.turns[-1].reward > 0


def reward_metrics(rollouts: Sequence[Rollout]) -> Metrics:
    """Mean return, share of successes, pass@k, and the mean of what was earned in positive rewards alone."""
    if not rollouts:
        return {}
    return {
        "reward/mean": mean(rollout.total_reward for rollout in rollouts),
        "reward/success_rate": mean(succeeded(rollout) for rollout in rollouts),
        "reward/mean_positive": mean(positive_reward(rollout) for rollout in rollouts),
        **{f"reward/pass_at_{k}": value for k, value in pass_at_all(rollouts).items()},
    }


def positive_reward(rollout: Rollout) -> float:
    """The sum of the turns' positive rewards."""
    return math.fsum(max(turn.reward, 0.0) for turn in rollout.turns)


def pass_at_all(rollouts: Iterable[Rollout]) -> dict[int, float]:
    """pass@k for 1, 2, 4, … and the size of the largest group, each over the groups that have k rollouts."""
    groups: defaultdict[tuple[str, str, int], list[bool]] = defaultdict(list)
    for rollout in rollouts:
        groups[rollout.request.group].append(succeeded(rollout))
    largest = max(map(len, groups.values()))
    ks = sorted({2**power for power in range(largest.bit_length())} | {largest})
    return {
        k: mean(pass_at(k, len(group), sum(group)) for group in groups.values() if len(group) >= k) for k in ks
    }


def pass_at(k: int, samples: int, successes: int) -> float:
    """Unbiased estimate that at least one of k rollouts succeeds (Chen et al. 2021, arXiv:2107.03374).

    >>> [pass_at(k, 4, 1) for k in (1, 2, 4)]
    [0.25, 0.5, 1.0]
    """
    return 1.0 - math.comb(samples - successes, k) / math.comb(samples, k)


def token_metrics(played: Sequence[Played]) -> Metrics:
    """Where the sampled ids went: trained, excluded by name, or lost with a failed rollout.

    ``tokens/trained_fraction`` is trained ÷ (sampled − excluded by a filter − those of failed rollouts). It is 1.0
    unless the bookkeeping lost an id, since the sampled ids were counted before it.
    """
    excluded: Counter[str] = Counter()
    trained = expected = 0
    for one in played:
        if one.rollout.status == "failed":
            continue
        excluded.update(exclusions(one))
        if one.rollout.excluded_by is None:
            trained += sum(sum(segment.loss_mask) for segment in one.rollout.segments)
            expected += one.num_sampled - sum(one.excluded.values())
    return {
        "tokens/sampled_total": float(sum(one.num_sampled for one in played)),
        "tokens/trained_fraction": trained / expected if expected else 1.0,
        **{f"tokens/excluded/{name}": float(count) for name, count in sorted(excluded.items())},
        **length_metrics([one.rollout for one in played if counts(one.rollout)]),
    }


def exclusions(one: Played) -> dict[str, int]:
    """Sampled ids kept out of the loss by filter; one that excludes the rollout takes all that others left."""
    by_turn = Counter(one.excluded)
    if one.rollout.excluded_by is not None:
        by_turn[one.rollout.excluded_by] += one.num_sampled - sum(one.excluded.values())
    return dict(by_turn)


def length_metrics(rollouts: Iterable[Rollout]) -> Metrics:
    """Lengths of prompts and completions, per segment."""
    segments = [segment for rollout in rollouts for segment in rollout.segments]
    if not segments:
        return {}
    completions = [len(segment.completion_ids) for segment in segments]
    return {
        "tokens/prompt_mean": mean(len(segment.prompt_ids) for segment in segments),
        "tokens/completion_mean": mean(completions),
        "tokens/completion_max": float(max(completions)),
    }


def rollout_metrics(played: Sequence[Played]) -> Metrics:
    """How many rollouts ended in which way, and what broke in the failed ones."""
    statuses = Counter(one.rollout.status for one in played)
    kinds = Counter(one.failure_kind for one in played if one.failure_kind is not None)
    return {
        "rollout/count": float(len(played)),
        **{f"rollout/{status}": float(statuses[status]) for status in get_args(Status)},
        **{f"rollout/failed/{kind}": float(count) for kind, count in sorted(kinds.items())},
    }


def turn_metrics(turns: Sequence[Turn], num_rollouts: int) -> Metrics:
    """Turns per rollout, ids per turn, and the share of turns that ended by length."""
    if not turns:
        return {}
    lengths = [turn.end - turn.start for turn in turns]
    return {
        "turns/mean": len(turns) / num_rollouts,
        "turns/tokens_mean": mean(lengths),
        "turns/tokens_max": float(max(lengths)),
        "turns/length_fraction": mean(turn.finish_reason == "length" for turn in turns),
    }


def env_metrics(rollouts: Iterable[Rollout]) -> Metrics:
    """Per env: mean return, successes, and the means of the env's own metrics over the rollouts that have them."""
    by_env: defaultdict[str, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        by_env[rollout.request.env].append(rollout)
    return {
        f"env/{env}/{name}": value
        for env, members in sorted(by_env.items())
        for name, value in one_env_metrics(members)
    }


def one_env_metrics(rollouts: Sequence[Rollout]) -> Iterator[tuple[str, float]]:
    """The metrics of one env's rollouts, without its name. An env's own metric never hides one of these."""
    own: defaultdict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        for name, value in rollout.metrics.items():
            own[name].append(value)
    yield from ((name, mean(values)) for name, values in sorted(own.items()))
    yield "reward_mean", mean(rollout.total_reward for rollout in rollouts)
    yield "success_rate", mean(succeeded(rollout) for rollout in rollouts)


def mean(values: Iterable[float]) -> float:
    """The mean of at least one value, exact up to one rounding."""
    listed = list(values)
    return math.fsum(listed) / len(listed)
