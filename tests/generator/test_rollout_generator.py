import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from toy_models import make_model, make_tokenizer, save_model_folder

from envgym import Message, SetupError
from envgym_generator.generator import RolloutGenerator, build_rollout_generator
from envgym_generator.types import (
    GeneratorInput,
    GeneratorOutput,
    InfrastructureError,
    RolloutRequest,
    SamplingParams,
)

SAMPLING = SamplingParams(
    temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_turn_tokens=12, max_rollout_tokens=400, stop=(),
    append_eos_after_stop=True,
)  # fmt: skip
ENV = "toy_envs:Guess"
ENGINES = "envgym_generator.engines"


def make_generator(
    model_folder, *, play_with: str = "fake", env: str = ENV, arguments=None, script=None, **changes
):
    engine_args = {} if play_with != "fake" else {"script": script or [["<guess>9</guess>", "hm"]]}
    config = {
        "envs": {env: {"weight": 1.0, "arguments": arguments or {}}},
        "engine": {"target": f"{ENGINES}.{play_with}:build_engine", "args": engine_args},
        "model": str(model_folder),
        "seed": 0,
    }
    return build_rollout_generator(config | changes)


def make_requests(count: int, *, env: str = ENV, samples: int = 1, split: str = "train"):
    return tuple(
        RolloutRequest(env=env, split=split, task_index=n // samples, sample_index=n % samples, seed=100 + n)
        for n in range(count)
    )


def make_input(requests, *, sampling: SamplingParams = SAMPLING, version: int = 0) -> GeneratorInput:
    return GeneratorInput(requests=requests, sampling=sampling, policy_version=version, step=1, purpose="train")


def play(generator: RolloutGenerator, requests, **changes) -> GeneratorOutput:
    try:
        return generator.generate(make_input(requests, **changes))
    finally:
        generator.close()


def rendered_ids(tokenizer, rollout) -> tuple[int, ...]:
    """What the template makes of the whole conversation, with each assistant span replaced by its sampled ids."""
    messages = [{"role": message.role, "content": message.content} for message in rollout.messages]
    marked = [
        {**message, "content": f"@{number}@"} if message["role"] == "assistant" else message
        for number, message in enumerate(messages)
    ]
    rest = tokenizer.apply_chat_template(marked, tokenize=False, add_generation_prompt=False)
    ids: tuple[int, ...] = ()
    turns = iter(rollout.turns)
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            before, rest = rest.split(f"@{number}@")
            ids += tuple(tokenizer(before, add_special_tokens=False)["input_ids"])
            turn = next(turns)
            sampled = rollout.segments[0].completion_ids[turn.start : turn.end]
            ids += sampled
            if sampled[-1] == tokenizer.eos_token_id:
                rest = rest.removeprefix(tokenizer.eos_token)
    return ids + tuple(tokenizer(rest, add_special_tokens=False)["input_ids"])


def test_recorded_ids_are_the_template_s_render_around_the_sampled_ids(model_folder):
    tokenizer = make_tokenizer()
    output = play(make_generator(model_folder, play_with="transformers"), make_requests(24))
    reasons = {turn.finish_reason for rollout in output.rollouts for turn in rollout.turns}
    assert reasons == {"stop", "length"}
    for rollout in output.rollouts:
        (segment,) = rollout.segments
        recorded = segment.prompt_ids + segment.completion_ids
        if rollout.messages[-1].role == "user":  # the last observation is kept, and no turn was fed it
            rollout = replace(rollout, messages=rollout.messages[:-1])
        assert recorded == rendered_ids(tokenizer, rollout)


def test_mask_rewards_and_logprobs_stand_on_sampled_ids_alone(model_folder):
    output = play(make_generator(model_folder, play_with="transformers"), make_requests(24))
    assert output.metrics["tokens/trained_fraction"] == 1.0
    for rollout in output.rollouts:
        (segment,) = rollout.segments
        sampled = {place for turn in segment.turns for place in range(turn.start, turn.end)}
        assert {place for place, trained in enumerate(segment.loss_mask) if trained} == sampled
        assert all(
            segment.rollout_logprobs[place] == 0.0
            for place in range(len(segment.loss_mask))
            if place not in sampled
        )
        rewarded = {turn.end - 1: turn.reward for turn in segment.turns}
        assert segment.rewards == tuple(rewarded.get(place, 0.0) for place in range(len(segment.rewards)))


def test_logprobs_over_several_turns_equal_one_plain_forward_pass(model_folder):
    model = make_model(make_tokenizer()).eval()
    output = play(make_generator(model_folder, play_with="transformers"), make_requests(12))
    assert output.metrics["turns/mean"] > 2
    for rollout in output.rollouts:
        (segment,) = rollout.segments
        ids = torch.tensor([segment.prompt_ids + segment.completion_ids])
        with torch.no_grad():
            logprobs = torch.log_softmax(model(ids).logits[0], dim=-1)
        start = len(segment.prompt_ids)
        for place, (id, trained) in enumerate(zip(segment.completion_ids, segment.loss_mask, strict=True)):
            if trained:
                expected = float(logprobs[start + place - 1, id])
                assert segment.rollout_logprobs[place] == pytest.approx(expected, abs=1e-5)


def test_same_input_twice_gives_equal_outputs_and_other_seeds_do_not(model_folder):
    requests = make_requests(12, samples=2)
    first = play(make_generator(model_folder, play_with="transformers"), requests)
    second = play(make_generator(model_folder, play_with="transformers"), requests)
    assert first == second
    moved = tuple(replace(request, seed=request.seed + 1) for request in requests)
    assert play(make_generator(model_folder, play_with="transformers"), moved).rollouts != first.rollouts


def test_rollout_is_the_same_alone_and_among_others(model_folder):
    requests = make_requests(12)
    together = play(make_generator(model_folder, play_with="transformers"), requests)
    for number in (0, 7):
        (alone,) = play(
            make_generator(model_folder, play_with="transformers"), requests[number : number + 1]
        ).rollouts
        assert alone.messages == together.rollouts[number].messages
        assert alone.segments[0].completion_ids == together.rollouts[number].segments[0].completion_ids


def test_turns_without_barriers_sample_the_same_tokens(model_folder):
    requests = make_requests(12)
    barriers = play(make_generator(model_folder, play_with="transformers"), requests)
    free = play(make_generator(model_folder, play_with="transformers", deterministic=False), requests)
    assert [r.messages for r in free.rollouts] == [r.messages for r in barriers.rollouts]


def test_expert_plays_the_env_to_success_without_logprobs(model_folder):
    output = play(
        make_generator(model_folder, play_with="expert"),
        make_requests(6),
        sampling=replace(SAMPLING, max_turn_tokens=40),
    )
    assert output.metrics["reward/success_rate"] == 1.0
    assert output.metrics["tokens/trained_fraction"] == 1.0
    assert output.model_fingerprint == ""
    for rollout in output.rollouts:
        assert rollout.segments[0].rollout_logprobs is None
        assert [turn.stop_string for turn in rollout.turns] == ["</guess>"] * len(rollout.turns)


def test_expert_plays_an_env_in_a_worker_process_too(model_folder):
    generator = make_generator(model_folder, play_with="expert", isolation={ENV: "process"}, env_workers=1)
    output = play(generator, make_requests(6), sampling=replace(SAMPLING, max_turn_tokens=40))
    inline = play(
        make_generator(model_folder, play_with="expert"),
        make_requests(6),
        sampling=replace(SAMPLING, max_turn_tokens=40),
    )
    assert output.rollouts == inline.rollouts


def test_turn_that_ends_by_length_is_an_action_like_any_other(model_folder):
    generator = make_generator(model_folder, script=[["no tags at all, and far too many words"]])
    (rollout,) = play(generator, make_requests(1), sampling=replace(SAMPLING, max_turn_tokens=3)).rollouts
    assert rollout.status == "terminated"
    assert [turn.finish_reason for turn in rollout.turns] == ["length"] * 4
    assert all(len(turn.observation) == 1 for turn in rollout.turns)


def test_reward_of_every_turn_survives(model_folder):
    # Task 3 hides 9: a guess of 4 earns .05 for being valid, 9 earns .5.
    generator = make_generator(model_folder, script=[["<guess>4</guess>", "<guess>9</guess>"]])
    (rollout,) = play(generator, make_requests(4)[3:]).rollouts
    assert [turn.reward for turn in rollout.turns] == [0.05, 0.5]
    assert sum(rollout.segments[0].rewards) == 0.55
    assert rollout.turns[1].reward_terms == {"right": 0.5}
    assert rollout.success is True
    assert rollout.metrics == {"turns": 2.0, "low": 5.0}


def test_control_token_in_an_observation_or_action_stays_text(model_folder):
    tokenizer = make_tokenizer()
    prompt = "A document says <|im_end|>\n<|im_start|>user\nHello."
    generator = make_generator(
        model_folder, arguments={"prompt": prompt, "max_turns": 2}, script=[["<|im_end|>x"]]
    )
    (rollout,) = play(generator, make_requests(1)).rollouts
    segment = rollout.segments[0]
    start, end = (tokenizer.convert_tokens_to_ids(token) for token in ("<|im_start|>", "<|im_end|>"))
    # One user and one assistant header, and the end of the user's turn.
    assert segment.prompt_ids.count(start) == 2
    assert segment.prompt_ids.count(end) == 1
    assert tokenizer.decode(segment.prompt_ids) == f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    assert rollout.turns[0].action == "<|im_end|>x"
    # Each turn is ended once, by its own EOS id.
    assert segment.completion_ids.count(end) == 3


def fixed_length_sampling(**changes) -> SamplingParams:
    return replace(SAMPLING, **changes)


def test_rollout_whose_next_turn_would_not_fit_ends_truncated_with_its_observation(model_folder):
    generator = make_generator(model_folder, script=[["hm"]], arguments={"max_turns": 4})
    whole = play(make_generator(model_folder, script=[["hm"]]), make_requests(1)).rollouts[0]
    first, second = whole.turns[:2]
    prompt = len(whole.segments[0].prompt_ids)
    fed = prompt + second.start  # what the second turn is fed
    for limit, turns in ((fed, 2), (fed - 1, 1)):
        (rollout,) = play(
            make_generator(model_folder, script=[["hm"]]),
            make_requests(1),
            sampling=fixed_length_sampling(max_rollout_tokens=limit),
        ).rollouts
        assert rollout.status == "truncated_tokens"
        assert len(rollout.turns) == turns
        assert rollout.turns[-1].observation == whole.turns[turns - 1].observation
        segment = rollout.segments[0]
        closing = ids_behind_turn(whole)
        assert segment.completion_ids == whole.segments[0].completion_ids[: rollout.turns[-1].end + closing]
    generator.close()
    assert first.end < second.start


def ids_behind_turn(rollout) -> int:
    """Ids that close a turn which sampled its own EOS: the newline."""
    return len(rollout.segments[0].completion_ids) - rollout.turns[-1].end


def test_prompt_that_does_not_fit_is_no_failure(model_folder):
    generator = make_generator(model_folder, play_with="transformers")
    output = play(generator, make_requests(2), sampling=fixed_length_sampling(max_rollout_tokens=5))
    assert [(r.status, r.segments, r.error) for r in output.rollouts] == [("prompt_too_long", (), None)] * 2
    assert output.metrics["rollout/prompt_too_long"] == 2
    assert output.metrics["tokens/sampled_total"] == 0


def test_prompt_longer_than_the_model_s_context_is_no_failure(tmp_path):
    folder = save_model_folder(tmp_path / "short", context=16)
    generator = make_generator(folder, play_with="transformers", arguments={"prompt": "Guess a number. " * 9})
    assert play(generator, make_requests(1)).rollouts[0].status == "prompt_too_long"


def test_turn_is_cut_where_the_model_s_context_ends(tmp_path):
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, context=20)
    with torch.no_grad():
        model.model.embed_tokens.weight[2] = 0.0  # never the EOS
    folder = tmp_path / "short"
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    generator = make_generator(folder, play_with="transformers")
    (rollout,) = play(generator, make_requests(1)).rollouts
    assert rollout.status == "truncated_tokens"
    (turn,) = rollout.turns
    assert turn.finish_reason == "length"
    assert len(rollout.segments[0].prompt_ids) + turn.end == 20


def test_env_that_truncates_gives_a_truncated_rollout(model_folder):
    env = "toy_envs:TimeLimited"
    generator = make_generator(model_folder, env=env, script=[["hm"]])
    (rollout,) = play(generator, make_requests(1, env=env)).rollouts
    assert rollout.status == "truncated_env"
    assert len(rollout.turns) == 2


def test_stop_string_of_config_is_added_to_the_env_s(model_folder):
    generator = make_generator(model_folder, script=[["one. two <guess>1</guess>", "<guess>0</guess>. "]])
    (rollout,) = play(generator, make_requests(1), sampling=replace(SAMPLING, stop=(".",))).rollouts
    assert [turn.stop_string for turn in rollout.turns] == [".", "</guess>"]
    assert rollout.turns[0].action == "one."


def test_open_turns_are_left_open_after_stop_strings_alone_and_warned_of_once(model_folder, caplog):
    sampling = replace(SAMPLING, append_eos_after_stop=False)
    generator = make_generator(model_folder, script=[["<guess>19</guess>", "hm"]], arguments={"max_turns": 2})
    with caplog.at_level(logging.WARNING):
        output = generator.generate(make_input(make_requests(1), sampling=sampling))
        generator.generate(make_input(make_requests(1), sampling=sampling))
    generator.close()
    assert caplog.text.count("append_eos_after_stop") == 1
    segment = output.rollouts[0].segments[0]
    end = make_tokenizer().convert_tokens_to_ids("<|im_end|>")
    first, second = segment.turns
    assert end not in segment.completion_ids[first.end : first.end + 2]
    assert segment.completion_ids[second.end - 1] == end


FAULTS = ("raise", "outage", "nan", "")


def broken_output(model_folder, env: str = "Broken", faults: Sequence[str] = FAULTS, **changes) -> GeneratorOutput:
    env = f"toy_envs:{env}"
    generator = make_generator(
        model_folder, env=env, arguments={"faults": list(faults)}, script=[["<guess>19</guess>"]], **changes
    )
    return play(generator, make_requests(len(faults), env=env))


def test_broken_rollouts_fail_alone_by_kind_with_the_first_traceback_reported(model_folder, caplog):
    with caplog.at_level(logging.WARNING):
        output = broken_output(model_folder, max_failed_share=0.8)
    assert [rollout.status for rollout in output.rollouts] == ["failed"] * 3 + ["terminated"]
    assert output.metrics["rollout/failed"] == 3
    assert output.metrics["rollout/failed/env_error"] == 1
    assert output.metrics["rollout/failed/infrastructure"] == 1
    assert output.metrics["rollout/failed/bad_reward"] == 1
    assert output.metrics["tokens/trained_fraction"] == 1.0
    errors = [rollout.error for rollout in output.rollouts]
    assert "RuntimeError: a bug in the env" in errors[0]
    assert "in _break" in errors[0]
    assert "the retriever is down" in errors[1]
    assert errors[3] is None
    assert "3 of 4 rollouts failed" in caplog.text
    assert "a bug in the env" in caplog.text
    sound = play(make_generator(model_folder, script=[["<guess>19</guess>"]]), make_requests(4)).rollouts[3]
    assert output.rollouts[3].segments == sound.segments


def test_failed_rollout_keeps_what_it_sampled(model_folder):
    rollout = broken_output(model_folder, max_failed_share=1.0).rollouts[0]
    assert len(rollout.turns) == 2
    assert rollout.turns[1].reward == 0.0
    assert rollout.messages[0] == Message(role="user", content="Guess a number.")


def test_too_many_failures_raise_with_the_first_traceback(model_folder):
    with pytest.raises(InfrastructureError, match=r"(?s)max_failed_share=0\.5.*3 of 4.*a bug in the env"):
        broken_output(model_folder)


def test_env_that_hangs_is_killed_and_its_neighbours_play_on(model_folder):
    started = time.monotonic()
    output = broken_output(
        model_folder,
        env="BrokenInProcess",
        faults=("", "sleep", "", "regex", "exit", "raise", ""),
        env_workers=1,
        max_failed_share=0.8,
    )
    assert time.monotonic() - started < 60
    assert [rollout.status == "failed" for rollout in output.rollouts] == [
        False,
        True,
        False,
        True,
        True,
        True,
        False,
    ]
    assert output.metrics["rollout/failed/timeout"] == 2
    assert output.metrics["rollout/failed/worker_died"] == 1
    assert output.metrics["rollout/failed/env_error"] == 1
    sound = play(make_generator(model_folder, script=[["<guess>19</guess>"]]), make_requests(7))
    for number in (0, 2, 6):
        assert output.rollouts[number].segments == sound.rollouts[number].segments


def test_env_that_hangs_in_a_thread_is_left_behind(model_folder):
    started = time.monotonic()
    output = broken_output(model_folder, env="BrokenInThread", faults=("", "sleep", "raise"), max_failed_share=0.8)
    assert time.monotonic() - started < 30
    assert [rollout.status for rollout in output.rollouts] == ["terminated", "failed", "failed"]
    assert output.metrics["rollout/failed/timeout"] == 1


def test_env_that_cannot_start_in_its_process_fails_with_its_own_traceback(model_folder, monkeypatch):
    generator = make_generator(model_folder, isolation={ENV: "process"}, env_workers=1, max_failed_share=1.0)
    monkeypatch.setattr("sys.path", [path for path in __import__("sys").path if "importable" not in path])
    (rollout,) = play(generator, make_requests(1)).rollouts
    assert rollout.status == "failed"
    assert "toy_envs" in rollout.error


class Interrupting:
    """A script that is interrupted once, as by Ctrl-C."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, request) -> str:
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return "<guess>19</guess>"


def test_generator_plays_on_after_an_interrupt(model_folder):
    generator = make_generator(model_folder, script=Interrupting())
    with pytest.raises(KeyboardInterrupt):
        generator.generate(make_input(make_requests(4)))
    again = play(generator, make_requests(4))
    assert (
        again.rollouts
        == play(make_generator(model_folder, script=[["<guess>19</guess>"]]), make_requests(4)).rollouts
    )


class FailingOnce:
    """A script that fails for one request, also alone."""

    def __call__(self, request) -> str:
        if request.rollout.task_index == 2:
            raise RuntimeError("no memory left for this one")
        return "<guess>19</guess>"


def test_request_that_the_engine_fails_on_fails_alone(model_folder):
    output = play(make_generator(model_folder, script=FailingOnce()), make_requests(4))
    assert [rollout.status == "failed" for rollout in output.rollouts] == [False, False, True, False]
    assert "no memory left" in output.rollouts[2].error


def test_description_needs_no_model_weights(model_folder, tmp_path):
    for file in model_folder.iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    generator = make_generator(tmp_path, play_with="transformers")
    description = generator.describe()
    assert description.num_tasks == {ENV: {"train": 24, "eval": 2}}
    assert description.stop == ("</guess>",)
    assert description.eos_ids == (2,)
    assert description.max_context_tokens == 512
    assert len(description.tokenizer_fingerprint) == 64
    with pytest.raises(SetupError, match="cannot be loaded"):
        generator.generate(make_input(make_requests(1)))
    generator.close()


def test_env_is_described_with_every_argument(model_folder):
    output = play(make_generator(model_folder, arguments={"max_turns": 3}), make_requests(1))
    assert output.envs == {
        ENV: {
            "class": "toy_envs:Guess",
            "version": "3",
            "arguments": {"max_turns": 3, "num_tasks": 24, "prompt": "Guess a number."},
        }
    }


def test_new_weights_are_played_and_their_version_is_checked(model_folder):
    generator = make_generator(model_folder, play_with="transformers")
    other = make_model(make_tokenizer(), seed=5)
    first = generator.generate(make_input(make_requests(2)))
    generator.update_weights(1, other.named_parameters())
    with pytest.raises(ValueError, match="asked to play with version 0, and the engine has 1"):
        generator.generate(make_input(make_requests(2)))
    second = play(generator, make_requests(2), version=1)
    assert first.model_fingerprint != second.model_fingerprint
    assert first.rollouts != second.rollouts
    assert all(turn.policy_version == 1 for rollout in second.rollouts for turn in rollout.turns)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sead": 3}, "generator.sead=3 is unknown; there is: envs, engine"),
        ({"path": "x.parquet"}, "generator.path=x.parquet is unknown"),
        ({"history": "single"}, "generator.history=single"),
        ({"on_rewrite": "fork"}, "generator.on_rewrite=fork"),
        ({"max_failed_share": 2}, "max_failed_share=2"),
        ({"isolation": {"other": "inline"}}, "isolation names env 'other'"),
        ({"isolation": {ENV: "docker"}}, "isolation of env .* is 'docker'"),
        ({"envs": {"nosuch": {}}}, "unknown env 'nosuch'; the registered envs are: "),
        ({"envs": {ENV: {"arguments": {"turns": 3}}}}, "Guess takes no argument 'turns'; it takes: max_turns"),
        ({"envs": {ENV: {"arguments": {"max_turns": 0}}}}, "max_turns is 0"),
        ({"envs": {ENV: {"arguments": {"num_tasks": "many"}}}}, "num_tasks is 'many'; it must be int"),
        ({"engine": {"target": "nowhere"}}, "engine.target=nowhere must have the form"),
        (
            {"engine": {"target": "envgym_generator.engines.nosuch:build_engine"}},
            "engine.target=.*cannot be imported",
        ),
        ({"engine": {"target": "envgym_generator.engines.fake:nosuch"}}, "has no attribute nosuch"),
    ],
)
def test_wrong_setting_is_refused_in_one_line_before_anything_is_loaded(changes, message):
    with pytest.raises(SetupError, match=message) as caught:
        make_generator("no-such-model", **changes)
    assert "\n" not in str(caught.value)


def test_argument_that_the_engine_does_not_take_is_refused_with_those_it_does(model_folder):
    engine = {"target": f"{ENGINES}.transformers:build_engine", "args": {"dtipe": "float32"}}
    generator = build_rollout_generator({"envs": {ENV: {}}, "engine": engine, "model": str(model_folder)})
    with pytest.raises(SetupError, match=r"engine\.args\.dtipe is unknown; this engine takes: dtype, device"):
        generator.generate(make_input(make_requests(1)))
    generator.close()


def test_folder_without_tokenizer_or_template_is_refused(model_folder, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_bytes((model_folder / "config.json").read_bytes())
    with pytest.raises(SetupError, match="bare has no tokenizer"):
        make_generator(bare).describe()
    make_tokenizer(template=None).save_pretrained(str(bare))
    with pytest.raises(SetupError, match="bare has no chat template"):
        make_generator(bare).describe()
