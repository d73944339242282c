# pyright: strict
"""Advantages: how much better a rollout, or a token, did than was to be expected.

An estimator is a function ``(episodes, section) -> advantages`` with one value per trained token of each episode.
``algorithm.advantage`` names one of ``ESTIMATORS``, or another one as ``package.module:function``.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from envgym_generator.types import Rollout, Segment
from envgym_trainer.batch import is_trained, trained_indices


class AdvantageSection(Protocol):
    """What estimators read of the ``algorithm`` section."""

    normalize_by_std: bool
    gamma: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """One rollout, reduced to what an estimator needs."""

    group: Hashable
    """Episodes of the same task have the same."""
    total: float
    """The sum of all its rewards."""
    token_rewards: tuple[float, ...]
    """[N] the rewards, on the trained tokens of all its segments in order."""


Advantages = list[list[float]]
Estimator = Callable[[Sequence[Episode], AdvantageSection], Advantages]

STD_FLOOR = 1e-6
"""Added to a standard deviation before dividing by it: a group of almost equal returns must not explode."""


def make_episodes(rollouts: Sequence[Rollout]) -> dict[int, Episode]:
    """The episodes of the rollouts that are trained on, by the rollout's index. Failed ones are left out."""
    return {
        index: Episode(
            group=rollout.request.group,
            total=rollout.total_reward,
            token_rewards=tuple(
                reward for segment in rollout.segments for reward in rewards_of_trained_tokens(segment)
            ),
        )
        for index, rollout in enumerate(rollouts)
        if is_trained(rollout)
    }


def rewards_of_trained_tokens(segment: Segment) -> list[float]:
    """[N] the rewards of a segment, each moved to the last trained token at or before it, or else to the first."""
    positions = trained_indices(segment)
    rewards = [0.0] * len(positions)
    last = -1
    for index, reward in enumerate(segment.rewards):
        if last + 1 < len(positions) and positions[last + 1] == index:
            last += 1
        if positions:
            rewards[max(last, 0)] += reward
    return rewards


def permute_rewards(episodes: Sequence[Episode], rng: random.Random) -> list[Episode]:
    """Deal the episodes' totals out again at random, each on the last token of the episode that gets it."""
    totals = [episode.total for episode in episodes]
    rng.shuffle(totals)
    return [
        replace(episode, total=total, token_rewards=_on_last_token(total, len(episode.token_rewards)))
        for episode, total in zip(episodes, totals, strict=True)
    ]


def _on_last_token(total: float, length: int) -> tuple[float, ...]:
    return (0.0,) * (length - 1) + (total,) if length else ()


def grpo(episodes: Sequence[Episode], section: AdvantageSection) -> Advantages:
    """Total minus the mean of the group (Shao et al. 2024), the same on every token.

    With ``normalize_by_std``, divided by the group's sample standard deviation (denominator n − 1). Without it the
    estimate is unbiased up to a factor (Liu et al. 2025). A group of one gets 0.
    """

    def relative(totals: Sequence[float]) -> list[float]:
        mean = math.fsum(totals) / len(totals)
        centred = [total - mean for total in totals]
        if not section.normalize_by_std or len(totals) < 2:
            return centred
        deviation = math.sqrt(math.fsum(value * value for value in centred) / (len(totals) - 1))
        return [value / (deviation + STD_FLOOR) for value in centred]

    return _by_group(episodes, relative)


def rloo(episodes: Sequence[Episode], section: AdvantageSection) -> Advantages:
    """Total minus the mean of the others in the group (Ahmadian et al. 2024). A group of one gets 0."""

    def relative(totals: Sequence[float]) -> list[float]:
        if len(totals) < 2:
            return [0.0] * len(totals)
        everything = math.fsum(totals)
        return [total - (everything - total) / (len(totals) - 1) for total in totals]

    return _by_group(episodes, relative)


def reinforce_pp(episodes: Sequence[Episode], section: AdvantageSection) -> Advantages:
    """Discounted returns from each token on, whitened over all trained tokens of the batch (Hu et al. 2025)."""
    returns = [discounted_returns(episode.token_rewards, section.gamma) for episode in episodes]
    return whiten(returns)


def discounted_returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """[N] the sum of the rewards from each token on, discounted by ``gamma`` per token.

    >>> discounted_returns([1.0, 2.0, 3.0], gamma=0.5)
    [2.75, 3.5, 3.0]
    """
    _, returns = gae(rewards, [0.0] * len(rewards), gamma=gamma, lam=1.0)
    return returns


def gae(
    rewards: Sequence[float], values: Sequence[float], *, gamma: float, lam: float, bootstrap: float = 0.0
) -> tuple[list[float], list[float]]:
    """Generalised advantage estimation (Schulman et al. 2016) over the trained tokens of one episode, in order.

    Args:
        rewards: [N].
        values: [N] the expected return from each token on.
        gamma: discount per token.
        lam: 1 trusts the rewards, 0 the next value.
        bootstrap: the value behind the last token: of what would have followed where the episode was truncated,
            0 where it terminated.

    Returns:
        Advantages, [N], and returns (advantages + values), [N].
    """
    advantages = [0.0] * len(rewards)
    following_value, following_advantage = bootstrap, 0.0
    for index in reversed(range(len(rewards))):
        surprise = rewards[index] + gamma * following_value - values[index]
        following_advantage = surprise + gamma * lam * following_advantage
        following_value = values[index]
        advantages[index] = following_advantage
    return advantages, [advantage + value for advantage, value in zip(advantages, values, strict=True)]


def whiten(values: Advantages) -> Advantages:
    """Shift and scale to mean 0 and standard deviation 1 over all tokens (denominator: their number)."""
    flat = [value for row in values for value in row]
    if not flat:
        return values
    mean = math.fsum(flat) / len(flat)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in flat) / len(flat))
    return [[(value - mean) / (deviation + STD_FLOOR) for value in row] for row in values]


def _by_group(episodes: Sequence[Episode], relative: Callable[[Sequence[float]], list[float]]) -> Advantages:
    """Apply a function to the totals of each group and spread its results over the episodes' tokens."""
    members: defaultdict[Hashable, list[int]] = defaultdict(list)
    for index, episode in enumerate(episodes):
        members[episode.group].append(index)
    advantages: Advantages = [[] for _ in episodes]
    for indices in members.values():
        for index, advantage in zip(indices, relative([episodes[i].total for i in indices]), strict=True):
            advantages[index] = [advantage] * len(episodes[index].token_rewards)
    return advantages


ESTIMATORS: dict[str, Estimator] = {"grpo": grpo, "rloo": rloo, "reinforce_pp": reinforce_pp}
GROUP_ESTIMATORS = ("grpo", "rloo")
"""Those whose baseline is a group, so that a group of one teaches nothing."""
