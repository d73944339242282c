"""The divergence from a reference policy: numbers by hand, and gradients against plain PyTorch."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from envgym_trainer.config import AlgorithmSection
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy, OptimizerSection, Reference
from envgym_trainer.loss import KL_ESTIMATORS, kl_loss
from envgym_trainer.update import accumulate_gradient, training_rows

LOGPROBS = [-1.0, -0.2, -3.0]
REFERENCE = [-1.5, -0.2, -2.0]


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        ("k1", [0.5, 0.0, -1.0]),
        ("k2", [0.125, 0.0, 0.5]),
        ("k3", [math.exp(-0.5) - 1 + 0.5, 0.0, math.exp(1.0) - 2]),
    ],
)
def test_estimates_are_those_of_the_definitions(estimator, expected):
    found = kl_loss(torch.tensor(LOGPROBS), torch.tensor(REFERENCE), estimator)
    assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("estimator", "slopes"),
    [("k1", [1.0, 1.0, 1.0]), ("k2", [0.5, 0.0, -1.0]), ("k3", [1 - math.exp(-0.5), 0.0, 1 - math.e])],
)
def test_gradients_are_those_of_the_definitions(estimator, slopes):
    logprobs = torch.tensor(LOGPROBS, requires_grad=True)
    kl_loss(logprobs, torch.tensor(REFERENCE), estimator).sum().backward()
    assert logprobs.grad.tolist() == pytest.approx(slopes)


@pytest.mark.parametrize("estimator", KL_ESTIMATORS)
def test_a_nan_under_a_false_mask_does_not_leak(estimator):
    everything = torch.tensor([-1.0, math.nan, -3.0], requires_grad=True)
    trained = torch.tensor([0, 2])
    loss = kl_loss(everything[trained], torch.tensor([-1.5, math.nan, -2.0])[trained], estimator).sum()
    loss.backward()
    assert math.isfinite(loss.item()) and everything.grad.isfinite().all() and everything.grad[1] == 0


def test_k3_of_policies_far_apart_stays_finite():
    assert kl_loss(torch.tensor([-200.0]), torch.tensor([-0.1]), "k3").isfinite().all()


def test_an_unknown_estimator_is_refused():
    with pytest.raises(ValueError, match="k1, k2, k3"):
        kl_loss(torch.zeros(1), torch.zeros(1), "k4")


@pytest.mark.integration
@pytest.mark.parametrize("stage", [0, 3])
@pytest.mark.parametrize("estimator", KL_ESTIMATORS)
def test_the_gradient_with_the_term_is_that_of_plain_pytorch(
    model_folder, make_segment, make_rollout, make_output, estimator, stage
):
    output = make_output(
        make_rollout(make_segment([True, False, True], [0, 0, 1.0], [-5.0, 0.0, -5.0]), sample=0),
        make_rollout(make_segment([True, True], [0, 0.0], [-5.0, -5.0]), sample=1),
    )
    model, frozen = (AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32) for _ in range(2))
    with torch.no_grad():
        for parameter in frozen.parameters():
            parameter.mul_(1.1)
    section = AlgorithmSection(advantage="grpo", lr=0.0, kl_coef=0.3, kl_estimator=estimator)
    optimizer = OptimizerSection(max_grad_norm=0.0, deepspeed={"zero_optimization": {"stage": stage}})

    expected = divergence = torch.zeros(())
    for rollout, advantage in zip(output.rollouts, (0.5, -0.5), strict=True):
        segment = rollout.segments[0]
        ids = torch.tensor([segment.prompt_ids + segment.completion_ids])
        new, old = (
            torch.log_softmax(m(input_ids=ids).logits[0, 1:-1], -1).gather(-1, ids[0, 2:, None])[:, 0]
            for m in (model, frozen)
        )
        d = new - old.detach()
        kl = {"k1": d, "k2": d**2 / 2, "k3": torch.exp(-d) - 1 + d}[estimator]
        ratio = torch.exp(new - torch.tensor(segment.rollout_logprobs))
        surrogate = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2))
        mask = torch.tensor(segment.loss_mask, dtype=torch.float32)
        expected = expected + (mask * (surrogate + 0.3 * kl)).sum() / 4
        divergence = divergence + (mask * kl).sum() / 4
    norm = torch.nn.utils.get_total_norm(torch.autograd.grad(expected, list(model.parameters())))

    policy, reference = DeepSpeedPolicy(model, optimizer), Reference(frozen, optimizer)
    found = accumulate_gradient(policy, training_rows(output, section, seed=0, step=1), section, 1.0, reference)
    assert found.kl == pytest.approx(divergence.item(), rel=1e-5)
    assert found.loss + 0.3 * found.kl == pytest.approx(expected.item(), rel=1e-5)
    assert policy.step(0.0) == pytest.approx(norm.item(), rel=1e-5)
