import pytest
from omegaconf import OmegaConf

from envgym_generator.types import SetupError
from envgym_trainer.command_line import env_names, group_options, read_command_line
from envgym_trainer.config import EnvShare, EvalConfig, SftConfig, TrainConfig


def read(*arguments):
    return read_command_line("train", TrainConfig, arguments)


def test_an_env_is_chosen_by_name_and_takes_any_argument():
    config = read("+env=search", "env.size=3", "env.a.b=[1,2]")
    assert config.envs == {"search": EnvShare(weight=1.0, arguments={"size": 3, "a": {"b": [1, 2]}})}


def test_envs_are_mixed_by_weight():
    config = read("envs.search={weight: 2, arguments: {max_turns: 5}}")
    assert config.envs == {"search": EnvShare(weight=2.0, arguments={"max_turns": 5})}


def test_every_registered_name_can_be_chosen():
    assert [list(read(f"+env={name}").envs) for name in env_names()] == [[name] for name in env_names()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stepz=3"], "unknown key stepz; did you mean steps"),
        (["+env=search", "sampling.temprature=1"], "did you mean sampling.temperature"),
        (["+sampling.foo=1"], "unknown key sampling.foo"),
        (["++foo=1"], "unknown key foo"),
        (["steps=many"], "steps=many: Value 'many' of type 'str' could not be converted to Integer"),
        (["steps"], "write KEY=VALUE"),
        (["=3"], "must be a string"),
        (["steps=1,2"], "Ambiguous value"),
        (["algorithm=ppo"], "algorithm=ppo is unknown; there is: grpo"),
        (["engine=warp"], "engine=warp is unknown"),
        (["~algorithm"], "algorithm.advantage is not set"),
        (["model=pretrained"], "model.path is not set"),
        (["generator=replay"], "generator.path is not set"),
        (["+env=serch"], "unknown env 'serch'; the registered envs are:"),
        (["+env=[search,gsm8k]"], "+env takes one name"),
        (["+env=search", "+env=search"], "+env takes one name"),
        (["+env=search", "envs.search={weight: 1}"], "exclude each other"),
        (["env.size=3"], "none is chosen; add +env=NAME"),
        (["envs.serch={weight: 1}"], "unknown env 'serch' in envs"),
        (["envs.search={wieght: 1}"], "must have the form"),
        (["envs.search=3"], "must have the form"),
        (["envs.search={weight: 0}"], "must be a number above 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments, message):
    with pytest.raises(SetupError) as caught:
        read(*arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_deepspeed_and_engine_arguments_are_open():
    config = read(
        "+env=search", "deepspeed.zero_optimization.stage=1", "deepspeed.x.y=1", "engine.args.dtype=bfloat16"
    )
    assert config.deepspeed == {"zero_optimization": {"stage": 1}, "x": {"y": 1}}
    assert config.engine.args == {"dtype": "bfloat16"}


def test_evaluation_samples_as_training_does_unless_told_otherwise():
    config = read(
        "+env=search", "sampling.temperature=0.7", "sampling.max_turn_tokens=9", "eval.sampling.top_p=0.9"
    )
    assert (config.eval.sampling.temperature, config.eval.sampling.top_p) == (0.7, 0.9)
    assert config.eval.sampling.max_turn_tokens == 9
    assert config.sampling.top_p == 1.0


def test_the_learning_rate_follows_the_model_unless_set():
    assert read("+env=search").algorithm.lr == read("+env=search").model.lr
    assert read("+env=search", "model=/some/folder").algorithm.lr < 1e-5
    assert read("+env=search", "algorithm.lr=0.5").algorithm.lr == 0.5


@pytest.mark.parametrize("path", ["/a/b c", "it's", "x\\", "a\\'b=c", "a,b={x}", "[a]", "über/模型"])
def test_a_model_may_be_any_folder(path):
    assert read("+env=search", f"model={path}").model.path == path


def test_a_checkpoint_is_sampled_as_its_run_sampled(tmp_path):
    folder = tmp_path / "checkpoints" / "step_7"
    folder.mkdir(parents=True)
    model = {"name": "tiny", "lr": 0.1, "max_turn_tokens": 11, "max_rollout_tokens": 12}
    OmegaConf.save(OmegaConf.create({"model": model}), tmp_path / "config.yaml")
    config = read_command_line("eval", EvalConfig, ["+env=search", f"model={folder}"])
    assert (config.model.name, config.eval.sampling.max_turn_tokens) == ("tiny-step_7", 11)
    again = read_command_line(
        "eval", EvalConfig, ["+env=search", f"model={folder}", "eval.sampling.max_turn_tokens=3"]
    )
    assert again.eval.sampling.max_turn_tokens == 3


@pytest.mark.parametrize("model", group_options("model"))
@pytest.mark.parametrize("algorithm", group_options("algorithm"))
def test_every_option_of_the_groups_composes(model, algorithm):
    arguments = ["model.path=x", "model.name=x"] if model == "pretrained" else []
    assert (
        read("+env=search", f"model={model}", f"algorithm={algorithm}", *arguments).algorithm.advantage
        == algorithm
    )


def test_keys_of_one_command_are_refused_by_another():
    with pytest.raises(SetupError, match="unknown key steps; see trainer-eval --help"):
        read_command_line("eval", EvalConfig, ["+env=search", "steps=3"])
    with pytest.raises(SetupError, match=r"unknown key eval\.tasks"):
        read_command_line("sft", SftConfig, ["data=x", "model=/y", "eval.tasks=3"])


def test_imitation_needs_data():
    with pytest.raises(SetupError, match="data is not set; add data=VALUE"):
        read_command_line("sft", SftConfig, ["model=/y"])
