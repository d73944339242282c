import random
from dataclasses import dataclass

import pytest

from envgym_trainer.advantage import (
    Episode,
    discounted_returns,
    gae,
    grpo,
    make_episodes,
    permute_rewards,
    reinforce_pp,
    rewards_of_trained_tokens,
    rloo,
    whiten,
)


@dataclass
class Section:
    normalize_by_std: bool = False
    gamma: float = 1.0


def episodes(*totals_and_groups):
    return [Episode(group=group, total=total, token_rewards=(0.0, total)) for total, group in totals_and_groups]


FOUR = episodes((6.0, "a"), (3.0, "a"), (9.0, "b"), (12.0, "b"))


def test_grpo_centres_each_group_and_gives_every_token_the_same():
    # Means 4.5 and 10.5.
    assert grpo(FOUR, Section()) == [[1.5, 1.5], [-1.5, -1.5], [-1.5, -1.5], [1.5, 1.5]]


def test_grpo_divided_by_the_sample_standard_deviation():
    # Deviations ±1.5 of two: sqrt(2 × 2.25 / 1) = 2.1213, and 1.5 / 2.1213 = 0.70711.
    assert grpo(FOUR, Section(normalize_by_std=True))[0] == pytest.approx([0.70711, 0.70711], abs=1e-5)


def test_rloo_subtracts_the_mean_of_the_others_and_gives_a_lone_episode_nothing():
    assert [values[0] for values in rloo([*FOUR, *episodes((1.0, "c"))], Section())] == [3.0, -3.0, -3.0, 3.0, 0.0]


@pytest.mark.parametrize("estimator", [grpo, rloo])
@pytest.mark.parametrize("normalize", [False, True])
def test_a_group_of_one_gets_no_advantage(estimator, normalize):
    assert estimator(episodes((7.0, "a")), Section(normalize_by_std=normalize)) == [[0.0, 0.0]]


@pytest.mark.parametrize("estimator", [grpo, rloo])
def test_equal_returns_give_exactly_no_advantage(estimator):
    same = episodes(*[(0.1, "a")] * 8)
    assert all(
        abs(value) < 1e-15 for values in estimator(same, Section(normalize_by_std=True)) for value in values
    )


@pytest.mark.parametrize(
    ("gamma", "lam", "returns"),
    [(1.0, 1.0, [6.0, 5.0, 3.0]), (0.5, 1.0, [2.75, 3.5, 3.0]), (1.0, 0.5, [3.625, 4.25, 3.0])],
)
def test_gae_returns(gamma, lam, returns):
    # E.g. γ=1, λ=.5: surprises 1+1−.5=1.5, 2+1.5−1=2.5, 3−1.5=1.5; advantages 1.5, 2.5+.75=3.25, 1.5+1.625=3.125.
    assert gae([1.0, 2.0, 3.0], [0.5, 1.0, 1.5], gamma=gamma, lam=lam)[1] == pytest.approx(returns)


def test_gae_bootstraps_from_the_value_behind_a_truncated_end():
    # γ=.5: the last surprise is 3 + .5×4 − 1.5 = 3.5, so its return is 5; a terminated episode returns 3 there.
    assert gae([3.0], [1.5], gamma=0.5, lam=1.0, bootstrap=4.0)[1] == [5.0]
    assert gae([3.0], [1.5], gamma=0.5, lam=1.0)[1] == [3.0]


def test_reinforce_returns_are_discounted_per_trained_token():
    assert discounted_returns([1.0, 2.0, 3.0], gamma=0.5) == [2.75, 3.5, 3.0]


def test_reinforce_pp_whitens_over_all_tokens_of_the_batch():
    found = reinforce_pp(
        [Episode(group=0, total=1.0, token_rewards=(0.0, 1.0)), Episode(group=1, total=0.0, token_rewards=(0.0,))],
        Section(),
    )
    # Returns 1, 1, 0: mean 2/3, deviation sqrt(2/9) = .4714.
    assert found[0] == pytest.approx([0.70711, 0.70711], abs=1e-4)
    assert found[1] == pytest.approx([-1.41421], abs=1e-4)


def test_whitening_nothing_gives_nothing():
    assert whiten([]) == [] and whiten([[]]) == [[]]


def test_rewards_on_untrained_positions_move_to_the_trained_token_before(make_segment):
    segment = make_segment([False, True, True, False, True], rewards=[0.5, 0.0, 1.0, 2.0, 4.0])
    assert rewards_of_trained_tokens(segment) == [0.5, 3.0, 4.0]


def test_failed_and_excluded_rollouts_enter_no_statistics(make_segment, make_rollout):
    good = make_rollout(make_segment([True], rewards=[1.0]))
    failed = make_rollout(make_segment([True], rewards=[9.0]), status="failed")
    excluded = make_rollout(make_segment([True], rewards=[9.0]), excluded_by="overlong")
    assert list(make_episodes([failed, good, excluded])) == [1]


def test_every_segment_of_a_forked_rollout_is_judged_by_its_whole_return(make_segment, make_rollout):
    forked = make_rollout(make_segment([True, True], rewards=[0.0, 0.25]), make_segment([True], rewards=[1.0]))
    (episode,) = make_episodes([forked]).values()
    assert (episode.total, episode.token_rewards) == (1.25, (0.0, 0.25, 1.0))


def test_permuted_rewards_are_the_same_rewards_on_other_episodes():
    permuted = permute_rewards(FOUR, random.Random(1))
    assert sorted(episode.total for episode in permuted) == [3.0, 6.0, 9.0, 12.0]
    assert [episode.total for episode in permuted] != [episode.total for episode in FOUR]
    assert all(episode.token_rewards == (0.0, episode.total) for episode in permuted)
    assert [episode.group for episode in permuted] == ["a", "a", "b", "b"]
