import math

import pytest

from envgym_generator.metrics import Played, batch_metrics, pass_at, reward_metrics
from envgym_generator.types import Rollout, RolloutRequest, Segment, Turn


def rollout(
    task: int = 0,
    sample: int = 0,
    rewards: tuple[float, ...] = (1.0,),
    *,
    env: str = "toy",
    tokens_per_turn: int = 2,
    masked: int = 0,
    success: bool | None = None,
    metrics: dict[str, float] | None = None,
    status: str = "terminated",
    excluded_by: str | None = None,
) -> Rollout:
    """One segment of turns that sampled ``tokens_per_turn`` ids each; the first ``masked`` ids are not trained."""
    length = tokens_per_turn * len(rewards)
    turns = tuple(
        Turn(
            start=number * tokens_per_turn, end=(number + 1) * tokens_per_turn, action="a", observation=(),
            reward=reward, reward_terms={}, finish_reason="stop" if number else "length", stop_string=None,
            policy_version=0,
        )
        for number, reward in enumerate(rewards)
    )  # fmt: skip
    segment = Segment(
        prompt_ids=(1, 2, 3), completion_ids=(5,) * length,
        loss_mask=tuple(position >= masked for position in range(length)), rewards=(0.0,) * length,
        rollout_logprobs=None, turns=turns,
    )  # fmt: skip
    return Rollout(
        request=RolloutRequest(env=env, split="train", task_index=task, sample_index=sample, seed=0),
        task_id=str(task), messages=(), segments=(segment,), status=status, success=success, metrics=metrics or {},
        excluded_by=excluded_by, error="Traceback" if status == "failed" else None,
    )  # fmt: skip


def played(one: Rollout, **changes) -> Played:
    sampled = sum(len(segment.completion_ids) for segment in one.segments)
    return Played(**{"rollout": one, "num_sampled": sampled} | changes)


@pytest.mark.parametrize(
    ("a", "b", "mean", "passes", "positive"),
    [
        ((1.0,), (2.0,), 1.5, 1.0, 1.5),
        ((1.0, 0.0), (0.0, 1.0), 1.0, 0.5, 1.0),
        ((-1.0,), (2.0,), 0.5, 0.5, 1.0),
        ((1.0, -1.0), (-0.5, 0.5), 0.0, 0.5, 0.75),
    ],
)
def test_reward_metrics_of_two_tasks_are_the_documented_ones(a, b, mean, passes, positive):
    metrics = reward_metrics([rollout(0, rewards=a), rollout(1, rewards=b)])
    assert metrics["reward/mean"] == mean
    assert metrics["reward/success_rate"] == metrics["reward/pass_at_1"] == passes
    assert metrics["reward/mean_positive"] == positive


def test_pass_at_k_is_the_unbiased_estimate():
    assert [pass_at(k, 4, 1) for k in (1, 2, 4)] == [0.25, 0.5, 1.0]
    # 5 rollouts with 2 successes: of the 10 pairs, C(3, 2) = 3 hold none.
    assert pass_at(2, 5, 2) == pytest.approx(0.7)
    assert pass_at(3, 4, 0) == 0.0


def test_pass_at_k_is_a_mean_over_groups_that_have_k_rollouts():
    # Task 0 has three rollouts with one success, task 1 a single failure.
    group = [rollout(0, sample, (float(sample == 0),)) for sample in range(3)]
    metrics = reward_metrics([*group, rollout(1, 0, (0.0,))])
    assert metrics["reward/pass_at_1"] == pytest.approx((1 / 3 + 0) / 2)
    assert metrics["reward/pass_at_2"] == pytest.approx(2 / 3)
    assert metrics["reward/pass_at_3"] == 1.0
    assert "reward/pass_at_4" not in metrics


def test_verdict_of_the_env_goes_before_the_last_reward():
    assert reward_metrics([rollout(success=False, rewards=(1.0,))])["reward/success_rate"] == 0.0
    assert reward_metrics([rollout(success=True, rewards=(-1.0,))])["reward/success_rate"] == 1.0


def test_inner_eos_is_excluded_by_name_and_the_rest_is_trained():
    # numbers: two turns of four ids, of which the first one's EOS was left out of the ids.
    one = rollout(rewards=(0.3, 1.7), tokens_per_turn=4, masked=1)
    metrics = batch_metrics([played(one, num_sampled=8, excluded={"single_inner_eos": 1})])
    assert metrics["tokens/sampled_total"] == 8
    assert metrics["tokens/excluded/single_inner_eos"] == 1
    assert metrics["tokens/trained_fraction"] == 1.0


def test_sampled_id_that_is_masked_without_a_name_lowers_the_trained_fraction():
    metrics = batch_metrics([played(rollout(rewards=(1.0, 1.0), masked=1))])
    assert metrics["tokens/trained_fraction"] == 3 / 4


def test_sampled_id_that_never_reached_the_segment_lowers_the_trained_fraction():
    assert batch_metrics([played(rollout(), num_sampled=4)])["tokens/trained_fraction"] == 0.5


def test_failed_rollout_is_counted_by_kind_and_left_out_of_everything_else():
    good = played(rollout(0, rewards=(1.0,)))
    bad = played(rollout(0, 1, rewards=(-9.0,), status="failed", metrics={"x": 7.0}), failure_kind="timeout")
    metrics = batch_metrics([good, bad])
    assert metrics["rollout/failed"] == metrics["rollout/failed/timeout"] == 1
    assert metrics["rollout/count"] == 2
    assert metrics["rollout/terminated"] == 1
    assert metrics["reward/mean"] == 1.0
    assert metrics["reward/pass_at_1"] == 1.0
    assert metrics["tokens/sampled_total"] == 4
    assert metrics["tokens/trained_fraction"] == 1.0
    assert "env/toy/x" not in metrics


def test_rollout_excluded_by_a_filter_is_named_and_out_of_rewards():
    kept = played(rollout(0, rewards=(1.0,)))
    cut = played(rollout(1, rewards=(0.0, 0.0), status="truncated_tokens", excluded_by="overlong"))
    metrics = batch_metrics([kept, cut])
    assert metrics["tokens/excluded/overlong"] == 4
    assert metrics["tokens/trained_fraction"] == 1.0
    assert metrics["reward/mean"] == 1.0
    assert metrics["rollout/truncated_tokens"] == 1


def test_own_metrics_of_an_env_are_averaged_over_the_rollouts_that_have_them():
    metrics = batch_metrics(
        [
            played(rollout(0, metrics={"searches": 2.0})),
            played(rollout(1, metrics={"searches": 4.0, "hits": 1.0})),
            played(rollout(2, env="other", rewards=(0.0,), metrics={"searches": 9.0})),
        ]
    )
    assert metrics["env/toy/searches"] == 3.0
    assert metrics["env/toy/hits"] == 1.0
    assert metrics["env/other/searches"] == 9.0
    assert metrics["env/toy/success_rate"] == 1.0
    assert metrics["env/other/reward_mean"] == 0.0


def test_lengths_and_turns_are_reported():
    metrics = batch_metrics([played(rollout(rewards=(0.0, 1.0))), played(rollout(1, rewards=(1.0,)))])
    assert metrics["turns/mean"] == 1.5
    assert metrics["turns/tokens_mean"] == 2.0
    assert metrics["turns/length_fraction"] == pytest.approx(2 / 3)
    assert metrics["tokens/prompt_mean"] == 3.0
    assert metrics["tokens/completion_mean"] == 3.0
    assert metrics["tokens/completion_max"] == 4.0


def test_batch_in_which_everything_failed_has_finite_metrics_and_no_reward():
    metrics = batch_metrics([played(rollout(status="failed"), failure_kind="env_error")])
    assert all(math.isfinite(value) for value in metrics.values())
    assert "reward/mean" not in metrics
