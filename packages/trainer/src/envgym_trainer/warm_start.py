"""Making a model at first use: a recipe's untrained model and data, then imitation in phases; or a conversion.

A recipe is a function ``prepare(folder: Path, env: str, seed: int) -> None`` named by ``model.recipe``. It writes
into the folder

- ``untrained/``: a model folder with random weights, tokenizer and chat template;
- ``phases.json``: the phases in order, each ``{"name": ..., "data": FILE, ...}`` with keys of ``SftSection``;
- the files named by ``data``, relative to the folder: GeneratorOutputs as Parquet;

and raises ``SetupError`` for an env that it cannot teach.
"""

import json
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from envgym_generator import storage
from envgym_trainer import dotted_path
from envgym_trainer.batch import make_rows
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy, OptimizerSection
from envgym_trainer.model import load_model, save_model
from envgym_trainer.model_cache import Conversion, WarmStart, build_aside
from envgym_trainer.progress import Progress
from envgym_trainer.sft import SftSection, sft


def make_model(warm_start: WarmStart, progress: Progress) -> Path:
    """Return the folder of a model, making it first where the cache does not have it.

    Raises:
        SetupError: for an env that the recipe cannot teach.
        RunError: if a phase did not come below its loss.
    """
    target = warm_start.folder
    if target.is_dir():
        return target

    def build(work: Path) -> Path:
        progress.say(f"making model {warm_start.name} for {warm_start.env}, once; it is kept in {target.parent}")
        dotted_path.load(warm_start.recipe, "model.recipe")(work, warm_start.env, warm_start.seed)
        imitate_phases(work, work / "trained", progress)
        return work / "trained"

    build_aside(target, build)
    return target


def convert_model(conversion: Conversion, progress: Progress) -> Path:
    """Return the folder of a model that a converter writes, which is called where the cache does not have it.

    Raises:
        SetupError: if the converter lacks something.
    """
    target = conversion.folder
    if target.is_dir():
        return target

    def build(work: Path) -> Path:
        progress.say(f"converting model {conversion.name}, once; it is kept in {target.parent}")
        folder = work / "model"
        folder.mkdir()
        dotted_path.load(conversion.convert, "model.convert")(folder)
        return folder

    build_aside(target, build)
    return target


def imitate_phases(work: Path, target: Path, progress: Progress) -> None:
    """Train ``work/untrained`` through the phases of ``work/phases.json`` and save the result as ``target``."""
    phases: list[dict[str, Any]] = json.loads((work / "phases.json").read_text(encoding="utf-8"))
    model = load_model(work / "untrained")
    for phase in phases:
        imitate(model, work / phase.pop("data"), phase.pop("name"), SftSection(**phase), progress)
    save_model(model, model.named_parameters(), source=work / "untrained", target=target)


def imitate(model: PreTrainedModel, data: Path, name: str, section: SftSection, progress: Progress) -> None:
    """Train a model in place on saved rollouts.

    Stage 0 of DeepSpeed: a model that is made at first use is small, and partitioning it would double the time.
    """
    rows = make_rows(storage.load(data))
    policy = DeepSpeedPolicy(
        model,
        OptimizerSection(
            betas=(0.9, section.adam_beta2),
            weight_decay=section.weight_decay,
            deepspeed={"zero_optimization": {"stage": 0}},
        ),
    )
    with progress.track(name, section.steps) as advance:
        sft(policy, rows, section, lambda done: advance(f"loss {done.loss:.3f}"))
    policy.close()
