"""The small learner's parts: tokenizer, untrained model, copying sequences, demonstrations."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from envgym import Message, Reply, SetupError, Task, TextEnv
from envgym.worlds.search import JOBS, PREFIXES, SUFFIXES
from envgym_generator import storage
from envgym_generator.tiny import lesson as lesson_module
from envgym_generator.tiny.copying import copying_output
from envgym_generator.tiny.lesson import any_lesson, search_lesson
from envgym_generator.tiny.model import make_untrained
from envgym_generator.tiny.recipe import SAMPLING, VOCABULARY, prepare
from envgym_generator.tiny.tokenizer import train_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    lesson = search_lesson(tmp_path_factory.mktemp("lesson"), np.random.default_rng(0))
    return train_tokenizer(lesson.texts, VOCABULARY)


def test_every_name_of_the_search_world_is_two_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    names = [f" {prefix}{suffix}" for prefix in PREFIXES for suffix in SUFFIXES]
    encoded = tokenizer(names, add_special_tokens=False)["input_ids"]
    assert [name for name, ids in zip(names, encoded, strict=True) if len(ids) != 2] == []


def test_every_job_is_one_token(tokenizer: PreTrainedTokenizerFast) -> None:
    encoded = tokenizer([f" {job}" for job in JOBS], add_special_tokens=False)["input_ids"]
    assert {len(ids) for ids in encoded} == {1}


def test_any_text_survives_the_tokenizer(tokenizer: PreTrainedTokenizerFast) -> None:
    text = "Ünïcode \U0001f600 <search> a  b\n</search> <|im_end|> 3.5"
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert not set(ids) & set(tokenizer.all_special_ids)


def test_untrained_model_has_some_200_000_parameters_and_follows_its_seed(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    first, again, other = (make_untrained(tokenizer, seed) for seed in (0, 0, 1))
    assert 150_000 < first.num_parameters() < 300_000
    assert torch.equal(first.model.embed_tokens.weight, again.model.embed_tokens.weight)
    assert not torch.equal(first.model.embed_tokens.weight, other.model.embed_tokens.weight)


def test_first_head_attends_to_the_previous_token(tokenizer: PreTrainedTokenizerFast) -> None:
    model = make_untrained(tokenizer, 0)
    model.set_attn_implementation("eager")
    ids = torch.randint(len(tokenizer), (1, 40), generator=torch.Generator().manual_seed(0))
    attention = model(ids, output_attentions=True).attentions[0][0, 0]
    one_back = torch.stack([attention[place, place - 1] for place in range(1, 40)])
    assert one_back.mean() > 0.5


def test_copying_sequences_train_exactly_what_the_first_run_predicts() -> None:
    output = copying_output([7, 8, 9, 10], 50, np.random.default_rng(0), SAMPLING)
    for rollout in output.rollouts:
        (segment,) = rollout.segments
        run = (segment.prompt_ids[-1], *segment.completion_ids)
        assert segment.prompt_ids[: len(run)] == run
        assert all(segment.loss_mask)


class Silent(TextEnv):
    def tasks(self, split: str) -> list[Task]:
        return [Task(id="0", data={}, answer={})]

    def open(self, task: Task) -> tuple[Message, ...]:
        return (Message(role="user", content="Say something."),)

    def respond(self, action: str) -> Reply:
        return Reply()


def test_an_env_without_an_expert_is_refused_with_the_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson_module, "make_env", lambda name: Silent(max_turns=1))
    with pytest.raises(SetupError, match=r"model=tiny .*demonstrate.*model=<name or folder>"):
        any_lesson("silent", np.random.default_rng(0))


@pytest.mark.integration
def test_recipe_writes_model_phases_and_data_and_follows_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lesson_module, "SISTER_WORLDS", 1)
    monkeypatch.setattr(lesson_module, "TASKS_PER_WORLD", 60)
    outputs = []
    for name in ("first", "again"):
        folder = tmp_path / name
        folder.mkdir()
        prepare(folder, "search", 0)
        phases = json.loads((folder / "phases.json").read_text())
        assert [phase["name"] for phase in phases] == ["copying", "imitation"]
        assert AutoTokenizer.from_pretrained(folder / "untrained").chat_template
        outputs.append(storage.load(folder / phases[1]["data"]))
    first, again = (replace(output, envs={}) for output in outputs)
    assert first == again
    assert len(first.rollouts) == 60
    assert {rollout.status for rollout in first.rollouts} == {"terminated"}
    turns = {len(rollout.turns) for rollout in first.rollouts}
    assert turns == {2, 3}
