import json
import math

import pytest

from envgym_generator import storage
from envgym_generator.types import SetupError
from envgym_trainer.errors import RunError
from envgym_trainer.run_folder import RunFolder, default_path


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(tmp_path / "deep" / "run")
    made.make("steps: 1\n")
    return made


def test_the_folder_is_made_with_its_config(folder):
    assert (folder.path / "config.yaml").read_text() == "steps: 1\n"


def test_a_folder_that_appeared_meanwhile_is_not_taken(folder):
    with pytest.raises(SetupError, match="cannot be made: File exists"):
        RunFolder(folder.path).make("")


def test_rows_are_on_disk_as_soon_as_they_are_appended(folder):
    for step in (1, 2):
        folder.append_metrics({"step": step, "reward/mean": 0.5})
        lines = (folder.path / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == list(range(1, step + 1))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_metric_that_json_cannot_hold_is_named_and_nothing_is_written(folder, value):
    with pytest.raises(RunError, match="reward/mean"):
        folder.append_metrics({"step": 1, "reward/mean": value})
    assert not (folder.path / "metrics.jsonl").exists()


def test_rollouts_and_evaluations_are_saved_by_number(folder, make_output, make_rollout, make_segment):
    output = make_output(make_rollout(make_segment([True])))
    assert storage.load(folder.save_rollouts(3, output)) == output
    assert storage.load(folder.save_eval(0, output)) == output
    assert (folder.path / "rollouts" / "step_3.parquet").is_file()
    assert (folder.path / "eval" / "step_0.parquet").is_file()


def test_a_save_that_breaks_leaves_no_checkpoint(folder):
    def half(target):
        target.mkdir()
        (target / "config.json").write_text("{}")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.save_checkpoint(4, half)
    assert not (folder.path / "checkpoints" / "step_4").exists()

    def whole(target):
        target.mkdir()
        (target / "config.json").write_text("{}")

    assert sorted(path.name for path in folder.save_checkpoint(4, whole).iterdir()) == ["config.json"]


def test_a_checkpoint_is_written_once(folder):
    folder.save_checkpoint(1, lambda target: target.mkdir())
    folder.save_checkpoint(1, lambda target: pytest.fail("written again"))


def test_the_default_path_is_a_plain_name():
    path = default_path("search", "my model/x")
    assert path.parent.name == "runs" and path.name.startswith("search-my_model_x-20")
