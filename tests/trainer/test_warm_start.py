"""Making a model by a recipe of a test's size: a byte model learns to copy a letter."""

import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from envgym_generator import storage
from envgym_generator.types import SetupError
from envgym_trainer.errors import RunError
from envgym_trainer.model_cache import WarmStart
from envgym_trainer.progress import Progress
from envgym_trainer.warm_start import make_model

pytestmark = pytest.mark.integration

RECIPE = """
import json
import shutil
from pathlib import Path

from envgym.errors import SetupError

HERE = Path(__file__).parent

def prepare(folder, env, seed):
    if env != "letters":
        raise SetupError(f"nobody can teach {env}")
    with (HERE / "calls").open("a") as calls:
        calls.write("x")
    shutil.copytree(HERE / "model", folder / "untrained")
    shutil.copy(HERE / "data.parquet", folder / "data.parquet")
    (folder / "phases.json").write_text((HERE / "phases.json").read_text())
"""
PHASES = """[
  {"name": "first", "data": "data.parquet", "steps": 400, "batch_size": 8, "lr": 0.02, "schedule": "constant",
   "warmup_steps": 0, "stop_below": 1.0, "deadline_s": 100},
  {"name": "second", "data": "data.parquet", "steps": 5, "batch_size": 4, "lr": 0.01, "schedule": "cosine"}
]"""


@pytest.fixture
def kitchen(tmp_path, monkeypatch, model_folder, make_segment, make_rollout, make_output):
    """A package with a recipe, its untrained model and its data."""
    folder = tmp_path / "kitchen"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "recipe.py").write_text(RECIPE)
    (folder / "phases.json").write_text(PHASES)
    (folder / "model").symlink_to(model_folder)
    examples = [make_segment([True, True], prompt=(5, n), ids=(n, 7)) for n in range(20, 36)]
    storage.save(make_output(*map(make_rollout, examples)), folder / "data.parquet")
    for name in ("kitchen", "kitchen.recipe"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ENVGYM_CACHE", str(tmp_path / "cache"))
    return folder


def warm_start(env="letters"):
    return WarmStart(name="small", recipe="kitchen.recipe:prepare", env=env, seed=0)


def test_a_model_is_made_through_its_phases_and_kept(kitchen, tmp_path, capsys):
    folder = make_model(warm_start(), Progress())
    assert list((tmp_path / "cache" / "models").iterdir()) == [folder]
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[5, 30, 30]])).logits[0]
    assert logits[2].argmax() == 7
    assert AutoTokenizer.from_pretrained(folder).chat_template
    assert "making model small for letters" in capsys.readouterr().out


def test_a_model_is_made_once(kitchen):
    assert make_model(warm_start(), Progress()) == make_model(warm_start(), Progress())
    assert (kitchen / "calls").read_text() == "x"


def test_a_model_made_again_is_the_same(kitchen, tmp_path, monkeypatch):
    first = make_model(warm_start(), Progress())
    monkeypatch.setenv("ENVGYM_CACHE", str(tmp_path / "other"))
    second = make_model(warm_start(), Progress())
    assert first != second
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def test_an_env_that_cannot_be_taught_is_the_users_to_change(kitchen, tmp_path):
    with pytest.raises(SetupError, match="nobody can teach search"):
        make_model(warm_start("search"), Progress())
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_phase_that_does_not_get_there_is_loud_and_leaves_nothing(kitchen, tmp_path):
    (kitchen / "phases.json").write_text(PHASES.replace('"deadline_s": 100', '"deadline_s": 0'))
    with pytest.raises(RunError, match=r"was to come below 1\.0"):
        make_model(warm_start(), Progress())
    assert list((tmp_path / "cache" / "models").iterdir()) == []
