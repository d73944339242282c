import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from envgym_generator.types import SetupError
from envgym_trainer.batch import Row, collate
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy, OptimizerSection, engine_config
from envgym_trainer.errors import RunError

pytestmark = pytest.mark.integration

ROWS = [
    Row(ids=(5, 9, 2, 7, 7, 3, 1), trained=(2, 3, 6), rollout=0, segment=0),
    Row(ids=(4, 8, 6, 2), trained=(1, 2), rollout=1, segment=0),
    Row(ids=(11, 12, 13, 14, 15), trained=(4,), rollout=2, segment=0),
]
LEARNING_RATE = 1e-2


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def make_policy(folder, stage, **settings):
    section = OptimizerSection(deepspeed={"zero_optimization": {"stage": stage}}, **settings)
    return DeepSpeedPolicy(load(folder), section)


def step_policy(policy, parts):
    """Two updates by the mean negative log-probability of all rows, cut into ``parts`` micro-batches."""
    norms = []
    for _ in range(2):
        for number, part in enumerate(parts):
            logprobs, _ = policy.statistics(collate(part), temperature=1.0)
            policy.backward(-logprobs.sum() / 6, last=number == len(parts) - 1)
        norms.append(policy.step(LEARNING_RATE))
    return norms, {name: tensor.clone() for name, tensor in policy.named_parameters()}


def step_plain(folder, max_grad_norm=1.0):
    """The same with PyTorch alone, full logits and one row at a time."""
    model = load(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    norms = []
    for _ in range(2):
        optimizer.zero_grad()
        for row in ROWS:
            logits = model(input_ids=torch.tensor([row.ids])).logits[0]
            predicted = torch.tensor([position - 1 for position in row.trained])
            targets = torch.tensor([row.ids[position] for position in row.trained])
            (torch.nn.functional.cross_entropy(logits[predicted], targets, reduction="sum") / 6).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm).item())
        optimizer.step()
    return norms, dict(model.named_parameters())


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_every_stage_steps_as_plain_adamw_does(model_folder, stage):
    norms, parameters = step_policy(make_policy(model_folder, stage), [ROWS])
    expected_norms, expected = step_plain(model_folder)
    assert norms == pytest.approx(expected_norms, rel=1e-5)
    assert set(parameters) == set(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(parameters[name], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("parts", [[ROWS[:1], ROWS[1:]], [[row] for row in ROWS], [ROWS[1:], ROWS[:1]]])
@pytest.mark.parametrize("stage", [0, 3])
def test_the_update_does_not_depend_on_how_the_batch_is_cut(model_folder, stage, parts):
    norms, _ = step_policy(make_policy(model_folder, stage), parts)
    assert norms == pytest.approx(step_plain(model_folder)[0], rel=1e-5)


@pytest.mark.parametrize("stage", [0, 3])
def test_the_gradient_norm_is_reported_before_clipping_and_clipping_is_wired(model_folder, stage):
    norms, parameters = step_policy(make_policy(model_folder, stage, max_grad_norm=1e-8), [ROWS])
    expected_norms, expected = step_plain(model_folder, max_grad_norm=1e-8)
    assert norms == pytest.approx(expected_norms, rel=1e-4)
    assert norms[0] > 1e-3
    # With gradients this small, Adam's eps matters: had nothing been clipped, the step would be larger.
    for name, tensor in expected.items():
        torch.testing.assert_close(parameters[name], tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stage", [0, 3])
def test_gradients_without_clipping_are_applied_as_they_are(model_folder, stage):
    norms, _ = step_policy(make_policy(model_folder, stage, max_grad_norm=0.0), [ROWS])
    assert norms == pytest.approx(step_plain(model_folder, max_grad_norm=1e9)[0], rel=1e-5)


@pytest.mark.parametrize("stage", [0, 3])
def test_a_gradient_that_is_not_finite_ends_the_run(model_folder, stage):
    policy = make_policy(model_folder, stage)
    logprobs, _ = policy.statistics(collate(ROWS), temperature=1.0)
    policy.backward(logprobs.sum() * math.nan, last=True)
    with pytest.raises(RunError, match="norm of the gradient is"):
        policy.step(LEARNING_RATE)


def test_named_parameters_are_whole_and_named_as_the_model_names_them(model_folder):
    policy, model = make_policy(model_folder, 3), load(model_folder)
    found = {name: tensor.clone() for name, tensor in policy.named_parameters()}
    assert all(torch.equal(found[name], parameter) for name, parameter in model.named_parameters())


def test_a_second_policy_on_the_same_model_starts_where_the_first_ended(model_folder):
    model = load(model_folder)
    section = OptimizerSection(deepspeed={"zero_optimization": {"stage": 0}})
    first = DeepSpeedPolicy(model, section)
    norms, _ = step_policy(first, [ROWS])
    first.close()
    again, _ = step_policy(DeepSpeedPolicy(model, section), [ROWS])
    assert again[0] < norms[1] < norms[0]


@pytest.mark.parametrize("settings", [{"stage": 7}, {"stge": 1}])
def test_settings_that_deepspeed_refuses_are_named_in_one_line(model_folder, settings):
    with pytest.raises(SetupError, match="deepspeed") as caught:
        DeepSpeedPolicy(load(model_folder), OptimizerSection(deepspeed={"zero_optimization": settings}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["gradient_clipping", "optimizer", "train_batch_size"])
def test_settings_that_keys_of_ours_decide_are_refused(key):
    with pytest.raises(SetupError, match=f"deepspeed.{key}"):
        engine_config(OptimizerSection(deepspeed={key: 1}))
