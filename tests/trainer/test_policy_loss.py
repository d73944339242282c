import math

import pytest
import torch

from envgym_trainer.batch import Row
from envgym_trainer.loss import Clip, policy_loss, token_weights

OFF = Clip(low=0.2, high=0.2, dual=None)


def rows_of(*lengths):
    return [
        Row(ids=tuple(range(length + 1)), trained=tuple(range(1, length + 1)), rollout=index, segment=0)
        for index, length in enumerate(lengths)
    ]


def reduce(rows, losses, *reduction):
    weights = token_weights(rows, *reduction)
    return sum(weight * sum(values) for weight, values in zip(weights, losses, strict=True))


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [(("token_mean",), 2.5), (("sequence_mean",), 3.0), (("fixed_length", 4), 1.25)],
)
def test_reductions_of_a_long_and_a_short_sequence(reduction, expected):
    # [[1,2,3],[4]]: 10/4; (2 + 4)/2; (6/4 + 4/4)/2.
    assert reduce(rows_of(3, 1), [[1, 2, 3], [4]], *reduction) == pytest.approx(expected)


@pytest.mark.parametrize("reduction", [("token_mean",), ("sequence_mean",), ("fixed_length", 4)])
def test_a_batch_without_trained_tokens_has_loss_zero(reduction):
    assert reduce([], [], *reduction) == 0.0


def test_segments_of_one_rollout_are_one_sequence():
    forked = [
        Row(ids=(0, 1, 2), trained=(1, 2), rollout=0, segment=0),
        Row(ids=(0, 1), trained=(1,), rollout=0, segment=1),
        Row(ids=(0, 1), trained=(1,), rollout=1, segment=0),
    ]
    assert token_weights(forked, "sequence_mean") == pytest.approx([1 / 6, 1 / 6, 1 / 2])


def test_an_unknown_reduction_is_named():
    with pytest.raises(ValueError, match="'mean'"):
        token_weights(rows_of(1), "mean")


def test_dual_clip_bounds_the_loss_of_a_negative_advantage():
    # Ratios e^-.69315 = .5, 1, e^2.30259 = 10; losses −.5, 1, and min(40, 3 × 4) = 12.
    found = policy_loss(
        torch.tensor([-1.69315, -1.0, -0.69741]),
        torch.tensor([-1.0, -1.0, -3.0]),
        torch.tensor([1.0, -1.0, -4.0]),
        Clip(low=0.2, high=0.2, dual=3.0),
    )
    assert found.losses.tolist() == pytest.approx([-0.5, 1.0, 12.0], abs=1e-4)
    assert found.clipped.tolist() == [False, False, True]


def test_clipping_is_one_sided_and_has_its_own_bound_on_each_side():
    ratio = torch.tensor([1.5, 1.5, 0.5, 0.5])
    advantages = torch.tensor([1.0, -1.0, 1.0, -1.0])
    found = policy_loss(ratio.log(), torch.zeros(4), advantages, Clip(low=0.1, high=0.3, dual=None))
    assert found.losses.tolist() == pytest.approx([-1.3, 1.5, -0.5, 0.9])
    assert found.clipped.tolist() == [True, False, False, True]


def test_the_gradient_on_the_sampling_policy_is_the_advantage():
    logprobs = torch.tensor([-1.0, -2.0], requires_grad=True)
    policy_loss(logprobs, torch.tensor([-1.0, -2.0]), torch.tensor([2.0, -3.0]), OFF).losses.sum().backward()
    assert logprobs.grad is not None and logprobs.grad.tolist() == [-2.0, 3.0]


def test_a_clipped_token_has_no_gradient():
    logprobs = torch.tensor([0.0], requires_grad=True)
    policy_loss(logprobs, torch.tensor([-1.0]), torch.tensor([1.0]), OFF).losses.sum().backward()
    assert logprobs.grad is not None and logprobs.grad.tolist() == [0.0]


@pytest.mark.parametrize("logprob", [-1e4, 1e4])
def test_an_extreme_ratio_stays_finite(logprob):
    found = policy_loss(torch.tensor([logprob]), torch.tensor([0.0]), torch.tensor([-1.0]), OFF)
    assert math.isfinite(found.losses.item())
