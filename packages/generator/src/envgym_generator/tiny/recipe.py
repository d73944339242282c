"""The recipe of the small learner: an untrained model, and the data of its two warm-start phases."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from envgym_generator.generator import build_rollout_generator
from envgym_generator.storage import save
from envgym_generator.tiny.copying import copying_output
from envgym_generator.tiny.lesson import Lesson, any_lesson, search_lesson
from envgym_generator.tiny.model import make_untrained, save_model
from envgym_generator.tiny.tokenizer import save_tokenizer, train_tokenizer
from envgym_generator.types import GeneratorInput, GeneratorOutput, RolloutRequest, SamplingParams

VOCABULARY = 1024
COPYING_SEQUENCES = 24_000
SAMPLING = SamplingParams(
    temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_turn_tokens=512, max_rollout_tokens=2048, stop=(),
    append_eos_after_stop=True,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """One round of supervised training, as the trainer's ``sft`` section names its settings."""

    name: str
    data: str
    """File name of a GeneratorOutput in the recipe's folder."""
    steps: int
    batch_size: int
    lr: float
    schedule: str
    """``constant`` or ``cosine``, after the warm-up."""
    warmup_steps: int
    weight_decay: float
    """Without it the attention logits grow until float32 rounding shows in the log-probabilities."""
    adam_beta2: float
    stop_below: float | None
    """Ends the phase once the running loss is below this."""
    deadline_s: float | None
    """Where ``stop_below`` is not reached within this many seconds, the phase has failed."""


COPYING = Phase(
    name="copying", data="copying.parquet", steps=5000, batch_size=16, lr=4e-3, schedule="constant",
    warmup_steps=50, weight_decay=0.1, adam_beta2=0.98, stop_below=0.3, deadline_s=180.0,
)  # fmt: skip
IMITATION = Phase(
    name="imitation", data="imitation.parquet", steps=1500, batch_size=16, lr=3e-3, schedule="cosine",
    warmup_steps=50, weight_decay=0.1, adam_beta2=0.98, stop_below=None, deadline_s=None,
)  # fmt: skip


def prepare(folder: Path, env: str, seed: int) -> None:
    """Write ``untrained/`` (model and tokenizer), ``phases.json`` and the phases' data into ``folder``.

    Args:
        folder: an existing, empty folder.
        env: a registered env. ``search`` has a lesson of its own; any other is taught by its ``demonstrate``.
        seed: everything random follows from it.

    Raises:
        SetupError: if the env has no scripted expert.
    """
    rng = np.random.default_rng([seed, 0x7111])
    with TemporaryDirectory() as scratch:
        lesson = search_lesson(Path(scratch), rng) if env == "search" else any_lesson(env, rng)
        tokenizer = train_tokenizer(lesson.texts, VOCABULARY)
        save_tokenizer(tokenizer, folder / "untrained")
        save_model(make_untrained(tokenizer, seed), folder / "untrained")
        copying = copying_output(_tokens(tokenizer, lesson.words), COPYING_SEQUENCES, rng, SAMPLING)
        save(copying, folder / COPYING.data)
        save(_demonstrations(lesson, env, folder / "untrained", seed), folder / IMITATION.data)
    (folder / "phases.json").write_text(json.dumps([asdict(phase) for phase in (COPYING, IMITATION)], indent=1))


def _tokens(tokenizer: PreTrainedTokenizerFast, words: Sequence[str]) -> list[int]:
    """The distinct ids that the words are made of, in order of first use."""
    encoded = tokenizer(list(words), add_special_tokens=False)["input_ids"]
    return list(dict.fromkeys(token for ids in encoded for token in ids))


def _demonstrations(lesson: Lesson, env: str, model_folder: Path, seed: int) -> GeneratorOutput:
    """Play the lesson's episodes with each env's own expert, all in one output."""
    outputs = [_play(env, arguments, count, model_folder, seed) for arguments, count in lesson.episodes]
    rollouts = tuple(rollout for output in outputs for rollout in output.rollouts)
    return replace(outputs[0], rollouts=rollouts, metrics={})


def _play(env: str, arguments: Mapping[str, Any], count: int, model_folder: Path, seed: int) -> GeneratorOutput:
    generator = build_rollout_generator(
        {
            "envs": {env: {"weight": 1.0, "arguments": dict(arguments)}},
            "engine": {"target": "envgym_generator.engines.expert:build_engine"},
            "model": str(model_folder),
            "seed": seed,
        }
    )
    requests = tuple(
        RolloutRequest(env=env, split="train", task_index=index, sample_index=0, seed=seed)
        for index in range(count)
    )
    try:
        return generator.generate(
            GeneratorInput(requests=requests, sampling=SAMPLING, policy_version=0, step=0, purpose="train")
        )
    finally:
        generator.close()
