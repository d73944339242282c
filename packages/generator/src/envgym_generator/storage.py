"""One file per ``GeneratorOutput``: Parquet with one row per rollout, written whole or not at all.

Tokens are lists of int32, bool and float, so that any Parquet reader can look at them. What belongs to the
output as a whole (sampling, envs, metrics) is JSON in the file's metadata. Loading gives back equal objects.

    >>> from tempfile import TemporaryDirectory
    >>> sampling = SamplingParams(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_turn_tokens=8,
    ...     max_rollout_tokens=64, stop=(), append_eos_after_stop=True)
    >>> output = GeneratorOutput(rollouts=(), sampling=sampling, policy_version=3, envs={}, model_fingerprint="",
    ...     metrics={})
    >>> with TemporaryDirectory() as folder:
    ...     save(output, Path(folder) / "step_4.parquet")
    ...     load(Path(folder) / "step_4.parquet") == output
    True
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from envgym.errors import SetupError
from envgym.messages import ImagePart, Message, Part, TextPart, ToolCall
from envgym_generator.types import GeneratorOutput, Rollout, RolloutRequest, SamplingParams, Segment, Turn

FORMAT = 1
"""Raised when a reader of the old files would no longer understand new ones."""
METADATA_KEY = b"envgym_generator.output"

_NUMBERS = pa.map_(pa.string(), pa.float64())
_PART = pa.struct([("text", pa.string()), ("media_type", pa.string()), ("data", pa.binary())])
_CALL = pa.struct([("id", pa.string()), ("name", pa.string()), ("arguments", pa.string())])
_MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("text", pa.string()),  # null where the content is made of parts
        ("parts", pa.list_(_PART)),
        ("tool_calls", pa.list_(_CALL)),
        ("tool_call_id", pa.string()),
    ]
)
_TURN = pa.struct(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("action", pa.string()),
        ("observation", pa.list_(_MESSAGE)),
        ("reward", pa.float64()),
        ("reward_terms", _NUMBERS),
        ("finish_reason", pa.string()),
        ("stop_string", pa.string()),
        ("policy_version", pa.int64()),
    ]
)
_REQUEST = pa.struct(
    [
        ("env", pa.string()),
        ("split", pa.string()),
        ("task_index", pa.int64()),
        ("sample_index", pa.int64()),
        ("seed", pa.int64()),
    ]
)
_TOKEN_COLUMNS: dict[str, type[np.generic]] = {
    "prompt_ids": np.int32,
    "completion_ids": np.int32,
    "loss_mask": np.bool_,
    "rewards": np.float64,
    "rollout_logprobs": np.float32,
}
_LOGPROBS_PATH = "segments.list.element.rollout_logprobs.list.element"

Item = TypeVar("Item")


def save(output: GeneratorOutput, path: Path) -> None:
    """Write an output to ``path``, aside first and then renamed, so that no half file is ever found there.

    Raises:
        ValueError: if a log-probability is not a float32 value, which is what the file holds.
    """
    table = _table(output)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Sign, exponent and mantissa bytes of log-probabilities each in a row of their own compress by a fifth.
        encoding = {_LOGPROBS_PATH: "BYTE_STREAM_SPLIT"}
        pq.write_table(table, aside, compression="zstd", use_dictionary=False, column_encoding=encoding)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def load(path: Path) -> GeneratorOutput:
    """Read what ``save`` wrote.

    Raises:
        SetupError: if there is no such file, or it is not a whole file of rollouts.
    """
    if not path.is_file():
        raise SetupError(f"{path} does not exist; give a saved GeneratorOutput (a file of rollouts/)")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise SetupError(f"{path} cannot be read as Parquet: {' '.join(str(error).split())}") from error
    header = _header(table.schema.metadata or {}, path)
    return GeneratorOutput(
        rollouts=tuple(_rollouts(table)),
        sampling=SamplingParams(**header["sampling"] | {"stop": tuple(header["sampling"]["stop"])}),
        policy_version=header["policy_version"],
        envs=header["envs"],
        model_fingerprint=header["model_fingerprint"],
        metrics=header["metrics"],
    )


def _header(metadata: Mapping[bytes, bytes], path: Path) -> dict[str, Any]:
    if METADATA_KEY not in metadata:
        raise SetupError(f"{path} is a Parquet file without rollouts; give a saved GeneratorOutput")
    header = json.loads(metadata[METADATA_KEY])
    if header["format"] != FORMAT:
        raise SetupError(
            f"{path} has format {header['format']} and this version reads {FORMAT}; install the other"
        )
    return header


# Writing.


def _table(output: GeneratorOutput) -> pa.Table:
    rollouts = output.rollouts
    columns = {
        "request": pa.array([_fields(rollout.request, _REQUEST) for rollout in rollouts], _REQUEST),
        "task_id": pa.array([rollout.task_id for rollout in rollouts], pa.string()),
        "messages": _lists(rollouts, lambda rollout: rollout.messages, _messages),
        "segments": _lists(rollouts, lambda rollout: rollout.segments, _segments),
        "status": pa.array([rollout.status for rollout in rollouts], pa.string()),
        "success": pa.array([rollout.success for rollout in rollouts], pa.bool_()),
        "metrics": pa.array([list(rollout.metrics.items()) for rollout in rollouts], _NUMBERS),
        "excluded_by": pa.array([rollout.excluded_by for rollout in rollouts], pa.string()),
        "error": pa.array([rollout.error for rollout in rollouts], pa.string()),
    }
    header = {
        "format": FORMAT,
        "sampling": asdict(output.sampling),
        "policy_version": output.policy_version,
        "envs": dict(output.envs),
        "model_fingerprint": output.model_fingerprint,
        "metrics": dict(output.metrics),
    }
    return pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(header).encode()})


def _fields(item: Any, struct: pa.StructType) -> dict[str, Any]:
    return {field.name: getattr(item, field.name) for field in struct}


def _lists(
    items: Sequence[Item], children: Callable[[Item], Sequence[Any]], array: Callable[[list[Any]], pa.Array]
) -> pa.ListArray:
    """A list column: ``array`` makes one array of all children, which the offsets then cut up."""
    rows = [children(item) for item in items]
    return pa.ListArray.from_arrays(_offsets(rows), array(list(chain.from_iterable(rows))))


def _offsets(rows: Sequence[Sequence[Any]]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)]), pa.int32())


def _messages(messages: list[Message]) -> pa.Array:
    return pa.array([_message_fields(message) for message in messages], _MESSAGE)


def _message_fields(message: Message) -> dict[str, Any]:
    content = message.content
    return {
        "role": message.role,
        "text": content if isinstance(content, str) else None,
        "parts": None if isinstance(content, str) else [_part_fields(part) for part in content],
        "tool_calls": [_fields(call, _CALL) for call in message.tool_calls],
        "tool_call_id": message.tool_call_id,
    }


def _part_fields(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"text": part.text}
    return {"media_type": part.media_type, "data": part.data}


def _segments(segments: list[Segment]) -> pa.Array:
    columns = {
        "prompt_ids": _token_lists("prompt_ids", [segment.prompt_ids for segment in segments]),
        "completion_ids": _token_lists("completion_ids", [segment.completion_ids for segment in segments]),
        "loss_mask": _token_lists("loss_mask", [segment.loss_mask for segment in segments]),
        "rewards": _token_lists("rewards", [segment.rewards for segment in segments]),
        "rollout_logprobs": _token_lists("rollout_logprobs", [segment.rollout_logprobs for segment in segments]),
        "turns": _lists(segments, lambda segment: segment.turns, _turns),
    }
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _token_lists(name: str, rows: Sequence[Sequence[Any] | None]) -> pa.ListArray:
    present = [row or () for row in rows]
    dtype = _TOKEN_COLUMNS[name]
    values = np.fromiter(chain.from_iterable(present), np.float64 if dtype is np.float32 else dtype)
    if dtype is np.float32:
        values = _as_float32(name, values)
    missing = pa.array([row is None for row in rows], pa.bool_())
    return pa.ListArray.from_arrays(_offsets(present), pa.array(values), mask=missing)


def _as_float32(name: str, values: np.ndarray) -> np.ndarray:
    rounded = values.astype(np.float32)
    if not np.array_equal(rounded, values):
        index = int(np.flatnonzero(rounded != values)[0])
        raise ValueError(f"{name} holds {values[index]!r}, which is not a float32 value; round it first")
    return rounded


def _turns(turns: list[Turn]) -> pa.Array:
    plain = [name for name in (field.name for field in _TURN) if name not in ("observation", "reward_terms")]
    columns = {name: pa.array([getattr(turn, name) for turn in turns], _TURN.field(name).type) for name in plain}
    columns["observation"] = _lists(turns, lambda turn: turn.observation, _messages)
    columns["reward_terms"] = pa.array([list(turn.reward_terms.items()) for turn in turns], _NUMBERS)
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


# Reading.


def _rollouts(table: pa.Table) -> Iterator[Rollout]:
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    flat = ("request", "task_id", "status", "success", "metrics", "excluded_by", "error")
    rows = zip(*(columns[name].to_pylist() for name in flat), strict=True)
    messages = _children(columns["messages"], _read_messages)
    segments = _children(columns["segments"], _read_segments)
    for row, said, played in zip(rows, messages, segments, strict=True):
        request, task_id, status, success, metrics, excluded_by, error = row
        yield Rollout(
            request=RolloutRequest(**request),
            task_id=task_id,
            messages=tuple(said),
            segments=tuple(played),
            status=status,
            success=success,
            metrics=dict(metrics),
            excluded_by=excluded_by,
            error=error,
        )


def _children(column: pa.ListArray, read: Callable[[pa.Array], Iterable[Any]]) -> Iterator[list[Any]]:
    """The inverse of ``_lists``: read all children at once, then cut them up by row."""
    children = list(read(column.flatten()))
    start = 0
    for length in column.value_lengths().to_pylist():
        yield children[start : start + (length or 0)]
        start += length or 0


def _read_messages(array: pa.Array) -> Iterator[Message]:
    for fields in array.to_pylist():
        parts = fields["parts"]
        yield Message(
            role=fields["role"],
            content=fields["text"] if parts is None else tuple(_read_part(part) for part in parts),
            tool_calls=tuple(ToolCall(**call) for call in fields["tool_calls"]),
            tool_call_id=fields["tool_call_id"],
        )


def _read_part(fields: Mapping[str, Any]) -> Part:
    if fields["data"] is None:
        return TextPart(text=fields["text"])
    return ImagePart(media_type=fields["media_type"], data=fields["data"])


def _read_segments(array: pa.StructArray) -> Iterator[Segment]:
    tokens = (_read_tokens(array.field(name)) for name in _TOKEN_COLUMNS)
    turns = _children(array.field("turns"), _read_turns)
    for prompt_ids, completion_ids, loss_mask, rewards, logprobs, played in zip(*tokens, turns, strict=True):
        yield Segment(
            prompt_ids=prompt_ids,
            completion_ids=completion_ids,
            loss_mask=loss_mask,
            rewards=rewards,
            rollout_logprobs=logprobs,
            turns=tuple(played),
        )


def _read_tokens(column: pa.ListArray) -> Iterator[Any]:
    values = column.flatten().to_numpy(zero_copy_only=False).tolist()
    start = 0
    for length in column.value_lengths().to_pylist():
        yield None if length is None else tuple(values[start : start + length])
        start += length or 0


def _read_turns(array: pa.StructArray) -> Iterator[Turn]:
    plain = [field.name for field in _TURN if field.name != "observation"]
    rows = zip(*(array.field(name).to_pylist() for name in plain), strict=True)
    for row, observation in zip(rows, _children(array.field("observation"), _read_messages), strict=True):
        fields = dict(zip(plain, row, strict=True))
        yield Turn(**fields | {"reward_terms": dict(fields["reward_terms"]), "observation": tuple(observation)})
