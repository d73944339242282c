"""One saved output, trained by one process and by two."""

import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from envgym_generator import storage
from envgym_trainer.merge import merge_metrics, merge_outputs
from envgym_trainer.ranks import Ranks, share_of_groups

SCRIPT = Path(__file__).parents[2] / "scripts" / "rank_grid.py"


@pytest.fixture
def unequal_output(make_segment, make_rollout, make_output):
    """A task with 3 rollouts and one with 13, of different lengths, some of them failed."""

    def rollout(task, sample):
        length = 2 + 3 * (sample % 3) + (sample + task) % 2  # the rewarded ones are longer: a loss far from 0
        segment = make_segment(
            [True] * length,
            [0.0] * (length - 1) + [float(sample % 3)],
            [-5.0 - index / 8 for index in range(length)],
            ids=[5 + (sample + 3 * index) % 40 for index in range(length)],
        )
        status = "failed" if sample in (1, 7) else "terminated"
        return make_rollout(segment, task=task, sample=sample, status=status)

    return make_output(*(rollout(0, sample) for sample in range(3)), *(rollout(1, sample) for sample in range(13)))


@pytest.fixture
def saved(unequal_output, tmp_path):
    path = tmp_path / "rollouts.parquet"
    storage.save(unequal_output, path)
    return path


@pytest.mark.integration
def test_loss_and_gradient_norm_do_not_depend_on_ranks_stages_and_micro_batches(model_folder, saved):
    done = subprocess.run(
        [sys.executable, SCRIPT, model_folder, saved, "--pairwise"], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-2000:]
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    assert [case["ranks"] for case in cases] == [1] * 5 + [2] * 5
    assert all(math.isfinite(case["loss"]) and case["norm"] > 1e-4 for case in cases)


@pytest.mark.integration
def test_without_the_agreement_the_watchdog_names_the_rank_and_the_place(model_folder, saved):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launcher, SCRIPT, model_folder, saved, "--disagree"], capture_output=True, text=True, timeout=900
    )
    assert done.returncode != 0
    assert "rank 1 has waited" in done.stderr or "rank 0 has waited" in done.stderr


def test_a_rank_that_waits_too_long_says_where_and_ends():
    code = (
        "import time\nfrom envgym_trainer.ranks import Ranks\n"
        "with Ranks(1, 2, timeout_s=0.2).at('the gather of rollouts'):\n    time.sleep(60)\n"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 1 and time.monotonic() - started < 60
    assert "rank 1 has waited" in done.stderr and "the gather of rollouts" in done.stderr


def test_shares_are_whole_groups_and_together_everything():
    groups = ["a", "a", "b", "c", "c", "d", "e"]
    shares = [share_of_groups(groups, rank, 3) for rank in range(3)]
    assert sorted(index for share in shares for index in share) == list(range(7))
    assert all({groups[i] for i in one}.isdisjoint({groups[i] for i in other}) for one, other in [shares[:2]])


def test_more_ranks_than_groups_leaves_some_without_work():
    assert [share_of_groups(["a", "a"], rank, 3) for rank in range(3)] == [[0, 1], [], []]


def test_a_process_that_is_alone_agrees_with_itself():
    assert Ranks().gather(5, "here") == [5] and Ranks().most(3, "here") == 3 and not Ranks().any(False, "here")


def test_outputs_of_ranks_are_put_together_in_order_and_a_replayed_one_counts_once(
    make_output, make_rollout, make_segment
):
    one, other = (make_output(make_rollout(make_segment([True]), task=task)) for task in range(2))
    assert merge_outputs([one, other]).rollouts == one.rollouts + other.rollouts
    assert merge_outputs([one, one]) == one


def test_counts_add_up_and_means_count_by_what_they_are_over():
    first = {"reward/mean": 1.0, "rollout/failed": 1.0, "tokens/completion_max": 4.0}
    second = {"reward/mean": 0.0, "rollout/failed": 2.0, "tokens/completion_max": 9.0}
    assert merge_metrics([(first, Counter(rollouts=3)), (second, Counter(rollouts=1))]) == {
        "reward/mean": 0.75,
        "rollout/failed": 3.0,
        "tokens/completion_max": 9.0,
    }
