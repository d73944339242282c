import random

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from envgym_trainer.batch import Row
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy, OptimizerSection
from envgym_trainer.errors import RunError
from envgym_trainer.sft import SftSection, sft, shuffle_by_length, shuffled_batches

EXAMPLES = [Row(ids=(1, 2, 40 + n, 3, 40 + n, 4), trained=(4, 5), rollout=n, segment=0) for n in range(8)]


def make_policy(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return DeepSpeedPolicy(model, OptimizerSection())


def run(folder, section, rows=EXAMPLES):
    steps = []
    sft(make_policy(folder), rows, section, steps.append)
    return steps


@pytest.mark.integration
def test_imitation_lowers_the_loss_and_counts_steps_from_one(model_folder):
    steps = run(model_folder, SftSection(steps=30, batch_size=4, lr=2e-2))
    assert [done.step for done in steps] == list(range(1, 31))
    assert steps[-1].loss < 0.5 * steps[0].loss


@pytest.mark.integration
def test_the_loss_is_the_mean_over_the_batchs_trained_tokens_however_it_is_cut(model_folder):
    rows = [*EXAMPLES[:3], Row(ids=tuple(range(20, 60)), trained=tuple(range(5, 40)), rollout=9, segment=0)]
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
    total = torch.zeros(())
    for row in rows:
        full = torch.log_softmax(model(input_ids=torch.tensor([row.ids])).logits[0], dim=-1)
        total -= sum(full[position - 1, row.ids[position]] for position in row.trained)
    for tokens in (1, 50, 10_000):
        (done,) = run(model_folder, SftSection(steps=1, batch_size=4, micro_batch_tokens=tokens), rows)
        assert done.loss == pytest.approx(total.item() / 41, rel=1e-5)


@pytest.mark.integration
def test_imitation_ends_early_below_the_wanted_loss(model_folder):
    steps = run(model_folder, SftSection(steps=400, batch_size=8, lr=2e-2, schedule="constant", stop_below=1.0))
    assert 10 <= len(steps) < 400
    assert np.mean([done.loss for done in steps[-10:]]) < 1.0


@pytest.mark.integration
@pytest.mark.parametrize("limit", [{"steps": 12}, {"steps": 10_000, "deadline_s": 0.2}])
def test_not_reaching_the_wanted_loss_is_an_error(model_folder, limit):
    with pytest.raises(RunError, match=r"below 0\.0001"):
        run(model_folder, SftSection(batch_size=4, lr=0.0, stop_below=1e-4, **limit))


@pytest.mark.integration
def test_the_same_seed_gives_the_same_losses(model_folder):
    section = SftSection(steps=5, batch_size=3, lr=1e-2, seed=4)
    assert [done.loss for done in run(model_folder, section)] == [done.loss for done in run(model_folder, section)]


def test_an_epoch_holds_every_row_once_in_batches_of_like_length():
    rng = random.Random(0)
    lengths = [rng.randrange(5, 100) for _ in range(300)]
    batches = shuffle_by_length(lengths, 8, np.random.default_rng(0))
    assert sorted(index for batch in batches for index in batch) == list(range(300))
    spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in batches]
    assert np.mean(spread) < 15


def test_every_epoch_is_shuffled_anew():
    batches = shuffled_batches(EXAMPLES, SftSection(steps=9, batch_size=8))
    first, second = ([row.rollout for row in next(batches)] for _ in range(2))
    assert sorted(first) == sorted(second)
