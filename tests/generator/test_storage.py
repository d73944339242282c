import random
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from envgym import ImagePart, Message, SetupError, TextPart, ToolCall
from envgym_generator.storage import METADATA_KEY, load, save
from envgym_generator.types import GeneratorOutput, Rollout, RolloutRequest, SamplingParams, Segment, Turn

SAMPLING = SamplingParams(
    temperature=0.7, top_p=0.9, top_k=5, min_p=0.05, max_turn_tokens=8, max_rollout_tokens=64,
    stop=("</answer>", "\n"), append_eos_after_stop=False,
)  # fmt: skip


def make_rollout(index: int, segments: tuple[Segment, ...], **changes) -> Rollout:
    values = {
        "request": RolloutRequest(env="toy", split="train", task_index=index, sample_index=1, seed=2**63 - 1),
        "task_id": f"task-{index}",
        "messages": (Message(role="user", content="Zoë 李 <|im_end|>\0"),),
        "segments": segments,
        "status": "terminated",
        "success": True,
        "metrics": {"turns": 2.0, "nan": float("inf")},
        "excluded_by": None,
        "error": None,
    }
    return Rollout(**values | changes)


def make_turn(start: int, end: int, **changes) -> Turn:
    values = {
        "start": start,
        "end": end,
        "action": "a",
        "observation": (),
        "reward": 0.1,
        "reward_terms": {},
        "finish_reason": "stop",
        "stop_string": None,
        "policy_version": 7,
    }
    return Turn(**values | changes)


def make_output(*rollouts: Rollout) -> GeneratorOutput:
    return GeneratorOutput(
        rollouts=rollouts,
        sampling=SAMPLING,
        policy_version=7,
        envs={"toy": {"class": "x:Y", "version": "1", "arguments": {"n": 3, "names": ["a"], "none": None}}},
        model_fingerprint="ab" * 32,
        metrics={"reward/mean": 0.1 + 0.2, "tokens/sampled_total": 5.0},
    )


def rich_output() -> GeneratorOutput:
    tool = Message(role="tool", content=(TextPart(text="seen"),), tool_call_id="c1")
    image = Message(
        role="user", content=(TextPart(text=""), ImagePart(media_type="image/png", data=b"\x89\0")), tool_calls=()
    )
    call = Message(
        role="assistant", content="", tool_calls=(ToolCall(id="c1", name="look", arguments='{"x": 1}'),)
    )
    first = Segment(
        prompt_ids=(1, 2, 200_000),
        completion_ids=(5, 6, 4, 8, 9, 7, 4),
        loss_mask=(True, True, True, False, False, True, True),
        rewards=(0.0, 0.0, 0.1, 0.0, 0.0, 0.0, -1e300),
        rollout_logprobs=tuple(float(np.float32(-x / 7)) for x in range(7)),
        turns=(
            make_turn(0, 3, observation=(tool, image), reward_terms={"em": 0.1, "f1": 1 / 3}),
            make_turn(5, 7, stop_string="</answer>", finish_reason="length"),
        ),
    )
    second = Segment(
        prompt_ids=(), completion_ids=(3,), loss_mask=(True,), rewards=(0.0,), rollout_logprobs=None, turns=()
    )
    empty = Segment(
        prompt_ids=(1,), completion_ids=(), loss_mask=(), rewards=(), rollout_logprobs=(), turns=(make_turn(0, 0),)
    )
    return make_output(
        make_rollout(0, (first, second), messages=(call, tool, image)),
        make_rollout(1, (), status="prompt_too_long", success=None, messages=()),
        make_rollout(2, (empty,), status="failed", success=False, error="Traceback\n  …", excluded_by="overlong"),
    )


def test_output_comes_back_equal_in_every_field(tmp_path):
    output = rich_output()
    save(output, tmp_path / "step_1.parquet")
    assert load(tmp_path / "step_1.parquet") == output


def test_output_without_rollouts_comes_back_equal(tmp_path):
    save(make_output(), tmp_path / "step_1.parquet")
    assert load(tmp_path / "step_1.parquet") == make_output()


def test_saving_replaces_the_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "step_1.parquet"
    save(make_output(), path)
    save(rich_output(), path)
    assert load(path) == rich_output()
    assert list(tmp_path.iterdir()) == [path]


def test_logprob_that_is_no_float32_is_refused_and_the_old_file_stays(tmp_path):
    path = tmp_path / "step_1.parquet"
    save(make_output(), path)
    segment = Segment(
        prompt_ids=(1,), completion_ids=(2,), loss_mask=(True,), rewards=(0.0,), rollout_logprobs=(-0.1,), turns=()
    )
    with pytest.raises(ValueError, match=r"-0\.1.* not a float32"):
        save(make_output(make_rollout(0, (segment,))), path)
    assert load(path) == make_output()


def test_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(SetupError, match=r"step_9\.parquet does not exist"):
        load(tmp_path / "step_9.parquet")


@pytest.mark.parametrize("content", [b"", b"not parquet at all", b"PAR1 but no more PAR1"])
def test_file_that_is_no_parquet_is_refused(tmp_path, content):
    path = tmp_path / "step_1.parquet"
    path.write_bytes(content)
    with pytest.raises(SetupError, match="cannot be read as Parquet") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_file_cut_in_half_is_refused(tmp_path):
    path = tmp_path / "step_1.parquet"
    save(rich_output(), path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(SetupError, match="cannot be read as Parquet"):
        load(path)


def test_damaged_pages_are_refused(tmp_path):
    path = tmp_path / "step_1.parquet"
    save(rich_output(), path)
    content = bytearray(path.read_bytes())
    content[4:600] = bytes(596)
    path.write_bytes(content)
    with pytest.raises(SetupError, match="cannot be read as Parquet"):
        load(path)


def test_other_peoples_parquet_is_refused(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(SetupError, match="without rollouts"):
        load(tmp_path / "x.parquet")


def test_newer_format_is_refused_with_both_numbers(tmp_path):
    table = pa.table({"x": [1]}).replace_schema_metadata({METADATA_KEY: b'{"format": 99}'})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(SetupError, match="format 99 and this version reads 1"):
        load(tmp_path / "x.parquet")


def long_rollout(rng: random.Random, index: int, tokens: int) -> Rollout:
    """Four turns of text-like ids, whose text is about four characters a token."""
    ids = tuple(int(rng.paretovariate(0.8)) % 150_000 for _ in range(tokens))
    mask = tuple(position % 250 < 150 for position in range(tokens))
    logprobs = tuple(float(np.float32(-rng.expovariate(2.0))) if sampled else 0.0 for sampled in mask)
    words = [str(id) for id in ids]
    starts = range(0, tokens, 250)
    turns = tuple(
        make_turn(start, start + 150, action=" ".join(words[start : start + 150]), reward_terms={"em": 0.0},
                  observation=(Message(role="user", content=" ".join(words[start + 150 : start + 250])),))
        for start in starts
    )  # fmt: skip
    messages = tuple(
        message
        for turn in turns
        for message in (Message(role="assistant", content=turn.action), *turn.observation)
    )
    segment = Segment(
        prompt_ids=tuple(range(100)), completion_ids=ids, loss_mask=mask, rewards=(0.0,) * tokens,
        rollout_logprobs=logprobs, turns=turns,
    )  # fmt: skip
    return make_rollout(index, (segment,), messages=messages)


def test_a_million_tokens_take_under_two_seconds_each_way_and_ten_bytes_each(tmp_path):
    rng = random.Random(0)
    output = make_output(*(long_rollout(rng, index, 1000) for index in range(1000)))
    path = tmp_path / "big.parquet"
    started = time.process_time()
    save(output, path)
    saved = time.process_time()
    loaded = load(path)
    read = time.process_time()
    assert loaded == output
    assert saved - started < 2.0
    assert read - saved < 2.0
    assert path.stat().st_size < 10 * 1_000_000
