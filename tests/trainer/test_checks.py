from pathlib import Path

import pytest

from envgym_generator.types import GeneratorDescription, SetupError
from envgym_trainer import advantage, checks, loss, schedule
from envgym_trainer.command_line import env_names, read_command_line
from envgym_trainer.config import TrainConfig


def check(*arguments, model=None):
    model_argument = [f"model={model}"] if model is not None else []
    config = read_command_line("train", TrainConfig, ["+env=search", *model_argument, *arguments])
    checks.check_train(config, env_names())


def test_the_defaults_pass():
    check()


def test_the_words_known_here_are_those_known_where_they_are_used():
    # Kept apart so that checking a config imports no torch.
    assert tuple(advantage.ESTIMATORS) == checks.ESTIMATORS
    assert advantage.GROUP_ESTIMATORS == checks.GROUP_ESTIMATORS
    assert loss.REDUCTIONS == checks.REDUCTIONS
    assert schedule.SCHEDULES == checks.SCHEDULES


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("steps=0", "steps=0 must be at least 1"),
        ("tasks_per_step=0", "tasks_per_step=0 must be at least 1"),
        ("group_size=1", "group_size=1 leaves grpo without a baseline"),
        ("algorithm.advantage=best", "algorithm.advantage=best is unknown; there is: grpo"),
        ("algorithm.reduction=mean", "algorithm.reduction=mean is unknown"),
        ("algorithm.reduction=fixed_length", "needs algorithm.fixed_length"),
        ("algorithm.schedule=step", "algorithm.schedule=step is unknown"),
        ("algorithm.lr=-1", "algorithm.lr=-1.0 must be at least 0"),
        ("algorithm.lr=nan", "algorithm.lr=nan must be at least 0"),
        ("algorithm.micro_batch_tokens=0", "algorithm.micro_batch_tokens=0 must be at least 1"),
        ("sampling.top_p=0.9", "sampling.top_p=0.9 distorts the ratio"),
        ("sampling.top_k=5", "sampling.top_k=5 distorts the ratio"),
        ("sampling.min_p=0.1", "sampling.min_p=0.1 distorts the ratio"),
        ("sampling.temperature=0", "sampling.temperature=0.0 must be above 0"),
        ("eval.tasks=-1", "eval.tasks=-1 must be at least 0"),
        ("eval.every=-1", "eval.every=-1 must be at least 0"),
        ("checkpoint.every=-1", "checkpoint.every=-1 must be at least 0"),
    ],
)
def test_a_value_that_a_run_cannot_have_is_named(argument, message):
    with pytest.raises(SetupError) as caught:
        check(argument)
    assert message in str(caught.value)


def test_a_group_of_one_is_enough_without_groups():
    check("group_size=1", "algorithm=reinforce_pp")


def test_no_env_lists_those_there_are():
    config = read_command_line("train", TrainConfig, [])
    with pytest.raises(SetupError, match=r"add \+env=NAME.*search"):
        checks.check_train(config, env_names())


def test_a_model_made_for_one_env_is_refused_for_two(monkeypatch):
    config = read_command_line("train", TrainConfig, ["envs.search={weight: 1}"])
    config.envs["other"] = config.envs["search"]
    with pytest.raises(SetupError, match="made for one env and 2 are chosen"):
        checks.check_train(config, env_names())


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "has no config.json"),
        ("model.safetensors", "has no weights"),
        ("tokenizer.json", "has no tokenizer"),
        ("chat_template.jinja", "has no chat template"),
    ],
)
def test_a_model_folder_that_lacks_something_is_refused(model_folder, tmp_path, missing, message):
    for path in model_folder.iterdir():
        if path.name != missing:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(SetupError, match=message):
        check(model=tmp_path)


def test_a_model_folder_that_is_not_there_is_refused():
    with pytest.raises(SetupError, match="does not exist"):
        check(model="/no/such/folder")


def test_a_chat_template_may_stand_in_the_tokenizers_config(model_folder, tmp_path):
    for path in model_folder.iterdir():
        if path.name != "chat_template.jinja":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    check(model=tmp_path)


def test_an_env_without_tasks_is_refused():
    description = GeneratorDescription(
        num_tasks={"search": {"train": 3, "eval": 0}},
        stop=(),
        tokenizer_fingerprint="",
        eos_ids=(),
        max_context_tokens=1,
    )
    checks.check_tasks(description, "train")
    with pytest.raises(SetupError, match=r"'search' has no eval tasks.*eval.tasks=0"):
        checks.check_tasks(description, "eval")


def test_a_run_folder_that_is_there_is_refused(tmp_path: Path):
    checks.check_absent(tmp_path / "new")
    with pytest.raises(SetupError, match="already exists and is not overwritten"):
        checks.check_absent(tmp_path)
