"""The gradient of a step against plain PyTorch that knows nothing of rows, chunks or micro-batches."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from envgym_generator.types import SetupError
from envgym_trainer.advantage import ESTIMATORS
from envgym_trainer.config import AlgorithmSection
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy, OptimizerSection
from envgym_trainer.errors import RunError
from envgym_trainer.update import accumulate_gradient, split_into_updates, training_rows

pytestmark = pytest.mark.integration

TEMPERATURE = 0.8
TOKEN_MEAN = {"reduction": "token_mean"}
SEQUENCE_MEAN = {"reduction": "sequence_mean"}
FIXED_LENGTH = {"reduction": "fixed_length", "fixed_length": 16}


def section_of(**settings):
    return AlgorithmSection(advantage="grpo", lr=0.0, **settings)


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture
def output(make_segment, make_rollout, make_output):
    """Two groups of two; lengths, masks and sampling log-probabilities all differ, and one rollout failed."""

    def rollout(task, sample, mask, reward, shift, **status):
        logprobs = [-5.3 + shift + 0.1 * index if on else 0.0 for index, on in enumerate(mask)]
        rewards = [0.0] * (len(mask) - 1) + [reward]
        segment = make_segment(mask, rewards, logprobs, prompt=range(1, 4 + task), ids=range(9, 9 + len(mask)))
        return make_rollout(segment, task=task, sample=sample, **status)

    yes, no = True, False
    return make_output(
        rollout(0, 0, [yes, yes, yes], 1.0, 0.0),
        rollout(0, 1, [yes, no, no, yes, yes, yes, yes], 0.0, -0.3),
        rollout(1, 0, [yes, yes], 0.25, 0.4),
        rollout(1, 1, [yes, yes, no, no, no, yes], 2.0, 0.1),
        rollout(1, 2, [yes], 100.0, 0.0, status="failed"),
    )


def reference(model, output, section):
    """Masked tensors, one sequence at a time, advantages by hand."""
    advantages = [0.5, -0.5, -0.875, 0.875]
    kept = output.rollouts[:4]
    total = sum(sum(rollout.segments[0].loss_mask) for rollout in kept)
    loss = torch.zeros(())
    for rollout, advantage in zip(kept, advantages, strict=True):
        segment = rollout.segments[0]
        ids = torch.tensor([segment.prompt_ids + segment.completion_ids])
        log_p = torch.log_softmax(model(input_ids=ids).logits[0, :-1] / TEMPERATURE, dim=-1)[
            -len(segment.loss_mask) :
        ]
        new = log_p.gather(-1, ids[0, -len(segment.loss_mask) :, None])[:, 0]
        mask = torch.tensor(segment.loss_mask, dtype=torch.float32)
        ratio = torch.exp(new - torch.tensor(segment.rollout_logprobs))
        bounded = ratio.clamp(1 - section.clip_low, 1 + section.clip_high)
        token = torch.maximum(-advantage * ratio, -advantage * bounded)
        if section.dual_clip is not None and advantage < 0:
            token = torch.minimum(token, torch.tensor(-section.dual_clip * advantage))
        token = token + section.entropy_coef * (log_p.exp() * log_p).sum(-1)
        denominator = {
            "token_mean": total,
            "sequence_mean": 4 * mask.sum(),
            "fixed_length": 4 * (section.fixed_length or 1),
        }[section.reduction]
        loss = loss + (mask * token).sum() / denominator
    return loss


@pytest.mark.parametrize("micro_batch_tokens", [1, 16, 1000])
@pytest.mark.parametrize(
    "settings",
    [
        TOKEN_MEAN,
        SEQUENCE_MEAN,
        FIXED_LENGTH,
        TOKEN_MEAN | {"entropy_coef": 0.1},
        SEQUENCE_MEAN | {"clip_low": 0.05, "clip_high": 0.1},
        TOKEN_MEAN | {"dual_clip": 1.5, "clip_high": 5.0},
    ],
)
def test_the_gradient_is_that_of_plain_pytorch_however_the_batch_is_cut(
    model_folder, output, settings, micro_batch_tokens
):
    section = section_of(micro_batch_tokens=micro_batch_tokens, **settings)
    policy = DeepSpeedPolicy(load(model_folder), OptimizerSection(), chunk_tokens=3)
    rows = training_rows(output, section, seed=0, step=1)
    accumulate_gradient(policy, rows, section, TEMPERATURE)

    model = load(model_folder)
    reference(model, output, section).backward()
    for (name, expected), found in zip(model.named_parameters(), policy.model.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_the_gradient_norm_is_the_same_at_every_stage(model_folder, output, stage):
    section = section_of(micro_batch_tokens=16, entropy_coef=0.1)
    policy = DeepSpeedPolicy(
        load(model_folder), OptimizerSection(deepspeed={"zero_optimization": {"stage": stage}}), chunk_tokens=3
    )
    gradient = accumulate_gradient(policy, training_rows(output, section, seed=0, step=1), section, TEMPERATURE)
    model = load(model_folder)
    loss = reference(model, output, section)
    loss.backward()
    expected = torch.nn.utils.get_total_norm([parameter.grad for parameter in model.parameters()]).item()
    assert policy.step(0.0) == pytest.approx(expected, rel=1e-5)
    assert gradient.loss == pytest.approx(reference(model, output, section_of()).item(), rel=1e-5)


def test_a_failed_rollout_is_neither_in_the_rows_nor_in_its_groups_mean(output):
    rows = training_rows(output, section_of(), seed=0, step=1)
    assert [row.row.rollout for row in rows] == [0, 1, 2, 3]
    assert [row.advantages[0] for row in rows] == pytest.approx([0.5, -0.5, -0.875, 0.875])


def test_every_segment_gets_its_rollouts_advantage(make_segment, make_rollout, make_output):
    forked = make_rollout(make_segment([True, True], [0.0, 0.0]), make_segment([True], [1.0]), sample=0)
    other = make_rollout(make_segment([True], [0.0]), sample=1)
    rows = training_rows(make_output(forked, other), section_of(), seed=0, step=1)
    assert [row.advantages for row in rows] == [(0.5, 0.5), (0.5,), (-0.5,)]


def test_scripted_tokens_are_reinforced_with_ratio_one(model_folder, make_segment, make_rollout, make_output):
    output = make_output(
        make_rollout(make_segment([True, True], [0.0, 1.0]), sample=0),
        make_rollout(make_segment([True]), sample=1),
    )
    section = section_of()
    policy = DeepSpeedPolicy(load(model_folder), OptimizerSection())
    gradient = accumulate_gradient(policy, training_rows(output, section, seed=0, step=1), section, 1.0)
    # Losses −.5, −.5 and .5 over three tokens.
    assert gradient.loss == pytest.approx(-0.5 / 3)
    assert gradient.clipped_fraction == 0.0


def test_a_loss_that_is_not_finite_ends_the_run(model_folder, output):
    model = load(model_folder)
    with torch.no_grad():
        model.model.norm.weight.fill_(math.nan)
    section = section_of()
    rows = training_rows(output, section, seed=0, step=1)
    with pytest.raises(RunError, match="the loss is nan"):
        accumulate_gradient(DeepSpeedPolicy(model, OptimizerSection()), rows, section, 1.0)


def test_updates_of_a_step_take_whole_groups_each(output):
    rows = training_rows(output, section_of(), seed=0, step=1)
    parts = split_into_updates(rows, output, 2)
    assert [[row.row.rollout for row in part] for part in parts] == [[0, 1], [2, 3]]
    assert split_into_updates(rows, output, 1) == [rows]
    assert len(split_into_updates(rows, output, 5)) == 2
    assert split_into_updates([], output, 2) == []


def test_a_dotted_path_names_an_estimator_of_ones_own(output):
    section = AlgorithmSection(advantage="envgym_trainer.advantage:rloo", lr=0.0)
    assert training_rows(output, section, seed=0, step=1)[0].advantages[0] == pytest.approx(1.0)


def short(episodes, section):
    return [[0.0] for _ in episodes]


def endless(episodes, section):
    return [[math.inf] * len(episode.token_rewards) for episode in episodes]


@pytest.mark.parametrize(
    ("estimator", "message"), [(short, "one number per trained token"), (endless, "not finite")]
)
def test_an_estimator_of_ones_own_that_returns_nonsense_is_named(output, monkeypatch, estimator, message):
    monkeypatch.setitem(ESTIMATORS, "own", estimator)
    with pytest.raises(SetupError, match=f"algorithm.advantage=own .*{message}"):
        training_rows(output, AlgorithmSection(advantage="own", lr=0.0), seed=0, step=1)


def test_permuted_rewards_depend_on_seed_and_step_alone(output):
    def first_advantages(**settings):
        rows = training_rows(output, section_of(permute_rewards=True), **settings)
        return [row.advantages[0] for row in rows]

    assert first_advantages(seed=0, step=1) == first_advantages(seed=0, step=1)
    assert len({tuple(first_advantages(seed=0, step=step)) for step in range(1, 9)}) > 1
