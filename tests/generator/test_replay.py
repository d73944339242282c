import pytest

from envgym import Message, SetupError
from envgym_generator.replay import build_replay_generator
from envgym_generator.storage import save
from envgym_generator.types import (
    GeneratorInput,
    GeneratorOutput,
    Rollout,
    RolloutRequest,
    SamplingParams,
    Segment,
    Turn,
)

SAMPLING = SamplingParams(
    temperature=0.8, top_p=1.0, top_k=0, min_p=0.0, max_turn_tokens=8, max_rollout_tokens=64, stop=("</a>",),
    append_eos_after_stop=True,
)  # fmt: skip


def make_rollout(task: int, sample: int) -> Rollout:
    turn = Turn(
        start=0, end=2, action="a", observation=(), reward=1.0, reward_terms={}, finish_reason="stop",
        stop_string=None, policy_version=3,
    )  # fmt: skip
    segment = Segment(
        prompt_ids=(1, 2, 3), completion_ids=(5, 4), loss_mask=(True, True), rewards=(0.0, 1.0),
        rollout_logprobs=(-0.5, -0.25), turns=(turn,),
    )  # fmt: skip
    return Rollout(
        request=RolloutRequest(env="toy", split="train", task_index=task, sample_index=sample, seed=1),
        task_id=str(task), messages=(Message(role="user", content="x"),), segments=(segment,),
        status="terminated", success=True, metrics={}, excluded_by=None, error=None,
    )  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    rollouts = tuple(make_rollout(task, sample) for task in (4, 9) for sample in (0, 1))
    output = GeneratorOutput(
        rollouts=rollouts, sampling=SAMPLING, policy_version=3, envs={}, model_fingerprint="f", metrics={"m": 1.0}
    )
    path = tmp_path / "step_4.parquet"
    save(output, path)
    return path, output


def make_input(purpose: str, step: int = 1) -> GeneratorInput:
    return GeneratorInput(requests=(), sampling=SAMPLING, policy_version=0, step=step, purpose=purpose)


def test_saved_output_is_served_unchanged_at_every_step(saved):
    path, output = saved
    generator = build_replay_generator({"path": str(path), "envs": {"toy": {}}, "model": "m", "seed": 1})
    assert generator.generate(make_input("train", 1)) == generator.generate(make_input("train", 2)) == output


def test_description_counts_the_tasks_in_the_file(saved):
    description = build_replay_generator({"path": saved[0]}).describe()
    assert description.num_tasks == {"toy": {"train": 2, "eval": 0}}
    assert description.max_context_tokens == 5
    assert description.stop == ("</a>",)


def test_weights_are_left_to_the_caller(saved):
    generator = build_replay_generator({"path": saved[0]})
    tensors = iter([("a", 1), ("b", 2)])
    generator.update_weights(1, tensors)
    generator.close()
    assert list(tensors) == [("a", 1), ("b", 2)]


def test_evaluation_is_refused_with_the_way_out(saved):
    with pytest.raises(SetupError, match=r"eval\.tasks=0"):
        build_replay_generator({"path": saved[0]}).generate(make_input("eval"))


def test_env_that_the_file_does_not_hold_is_refused_with_those_it_does(saved):
    with pytest.raises(SetupError, match="no rollouts of env 'search'; it has: toy"):
        build_replay_generator({"path": saved[0], "envs": {"search": {}}})


def test_missing_path_is_refused():
    with pytest.raises(SetupError, match=r"generator\.path=FILE"):
        build_replay_generator({"path": None})


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(SetupError, match="does not exist"):
        build_replay_generator({"path": str(tmp_path / "none.parquet")})
