"""The contract between a generator and a trainer: what is asked for, and every token of what came back.

Standard library and ``envgym.messages`` only. All classes are frozen, keyword-only and slotted, and check
themselves: lengths, order and finiteness, with both numbers in the message.

Shapes: ``P`` prompt ids and ``C`` completion ids of one segment.

Example: two turns of a chat. The policy samples ``[5, 6, 4]`` (4 is the end-of-turn id), the env answers with a
message that becomes ``[8, 9]``, and the policy samples ``[7, 4]``. The turns earned 0.25 and 1.0.

    >>> sampled = [True, True, True, False, False, True, True]
    >>> first = Turn(start=0, end=3, action="ab", observation=(Message(role="user", content="x"),), reward=0.25,
    ...     reward_terms={}, finish_reason="stop", stop_string=None, policy_version=0)
    >>> second = Turn(start=5, end=7, action="c", observation=(), reward=1.0,
    ...     reward_terms={}, finish_reason="stop", stop_string=None, policy_version=0)
    >>> segment = Segment(prompt_ids=(1, 2, 3), completion_ids=(5, 6, 4, 8, 9, 7, 4), loss_mask=tuple(sampled),
    ...     rewards=(0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 1.0), rollout_logprobs=None, turns=(first, second))
    >>> [segment.completion_ids[turn.start : turn.end] for turn in segment.turns]
    [(5, 6, 4), (7, 4)]
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from envgym.errors import InfrastructureError as InfrastructureError
from envgym.errors import SetupError as SetupError
from envgym.messages import JSON as JSON
from envgym.messages import Message as Message

FinishReason = Literal["stop", "length", "abort"]
Status = Literal["terminated", "truncated_env", "truncated_tokens", "prompt_too_long", "failed"]
Purpose = Literal["train", "eval"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    """How tokens are drawn. One set serves all requests of a ``GeneratorInput``."""

    temperature: float
    """Logits are divided by it before the softmax. 0 is greedy."""
    top_p: float
    """1.0 is off. Must be off for training, as must the next two: they distort the ratio of policies."""
    top_k: int
    """0 is off."""
    min_p: float
    """0.0 is off."""
    max_turn_tokens: int
    """Most ids sampled in one turn."""
    max_rollout_tokens: int
    """Most ids (prompt and completion so far) that a turn may be fed. Where the next turn would be fed more, the
    rollout ends ``truncated_tokens``."""
    stop: tuple[str, ...]
    """Stop strings, added to the env's own."""
    append_eos_after_stop: bool
    """Whether a turn that ended by a stop string is closed with the template's end-of-turn tokens (mask False)."""

    def __post_init__(self) -> None:
        _at_least("temperature", self.temperature, 0.0)
        _within("top_p", self.top_p, 0.0, 1.0)
        _at_least("top_k", self.top_k, 0)
        _within("min_p", self.min_p, 0.0, 1.0)
        _at_least("max_turn_tokens", self.max_turn_tokens, 1)
        _at_least("max_rollout_tokens", self.max_rollout_tokens, 1)
        if "" in self.stop:
            raise ValueError("stop holds an empty string, which would end every turn at once")

    @property
    def is_full_distribution(self) -> bool:
        """Whether top-p, top-k and min-p are all off, as training needs."""
        return self.top_p == 1.0 and self.top_k == 0 and self.min_p == 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutRequest:
    """One episode to be played. Requests with the same (env, split, task_index) form one group."""

    env: str
    split: str
    task_index: int
    sample_index: int
    """Which of the group's rollouts this is, from 0."""
    seed: int

    @property
    def group(self) -> tuple[str, str, int]:
        """The key that rollouts of one task share."""
        return self.env, self.split, self.task_index


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorInput:
    """The work of one step."""

    requests: tuple[RolloutRequest, ...]
    sampling: SamplingParams
    policy_version: int
    step: int
    purpose: Purpose

    def __post_init__(self) -> None:
        if self.purpose == "train" and not self.sampling.is_full_distribution:
            raise ValueError(
                f"training needs top_p=1, top_k=0 and min_p=0, and got top_p={self.sampling.top_p}, "
                f"top_k={self.sampling.top_k}, min_p={self.sampling.min_p}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One action of the policy: the ids ``[start, end)`` of its segment's completion, and what came of it."""

    start: int
    end: int
    """Exclusive. ``completion_ids[start:end]`` are the sampled ids of this turn, and only those."""
    action: str
    """The text that the env was given."""
    observation: tuple[Message, ...]
    """What the env answered, kept also where it no longer fitted into the ids."""
    reward: float
    reward_terms: Mapping[str, float]
    finish_reason: FinishReason
    """``stop``: an EOS id or a stop string. ``length``: a token budget ran out. ``abort``: the engine gave up."""
    stop_string: str | None
    """The stop string that ended the turn; None for an EOS id, a length or an abort."""
    policy_version: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"turn spans [{self.start}, {self.end}); start must be at least 0 and at most end")
        if not math.isfinite(self.reward):
            raise ValueError(f"turn [{self.start}, {self.end}) has reward {self.reward}; rewards must be finite")


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A prompt and what followed it, as one sequence of ids that a trainer can run forward over."""

    prompt_ids: tuple[int, ...]
    """[P]"""
    completion_ids: tuple[int, ...]
    """[C] sampled ids, and between them closing tokens, template glue and observations."""
    loss_mask: tuple[bool, ...]
    """[C] True exactly on the sampled ids that are trained."""
    rewards: tuple[float, ...]
    """[C] a turn's reward on its last sampled id, 0.0 elsewhere."""
    rollout_logprobs: tuple[float, ...] | None
    """[C] log-probability of each sampled id under the distribution it was drawn from (after temperature), 0.0
    where not sampled; each is a float32 value. None where the ids were scripted."""
    turns: tuple[Turn, ...]
    """In order, without overlap."""

    def __post_init__(self) -> None:
        length = len(self.completion_ids)
        _same_length("loss_mask", self.loss_mask, length)
        _same_length("rewards", self.rewards, length)
        if self.rollout_logprobs is not None:
            _same_length("rollout_logprobs", self.rollout_logprobs, length)
            _all_finite("rollout_logprobs", self.rollout_logprobs)
        _all_finite("rewards", self.rewards)
        previous_end = 0
        for turn in self.turns:
            if turn.start < previous_end:
                raise ValueError(f"a turn starts at {turn.start}, before the previous one's end {previous_end}")
            previous_end = turn.end
        if previous_end > length:
            raise ValueError(f"a turn ends at {previous_end}, behind the completion's {length} ids")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollout:
    """One episode with its tokens."""

    request: RolloutRequest
    task_id: str
    messages: tuple[Message, ...]
    """The prompt's messages, then actions and observations in turn."""
    segments: tuple[Segment, ...]
    """One, unless the template rewrote history and the rollout forked. Empty only if no token was sampled."""
    status: Status
    """``terminated``: the env ended. ``truncated_env``: a limit from outside the env. ``truncated_tokens``: the
    next turn would not fit. ``prompt_too_long``: the first did not. ``failed``: something broke."""
    success: bool | None
    """The env's verdict; None where it gave none."""
    metrics: Mapping[str, float]
    excluded_by: str | None
    """The filter that keeps this rollout's tokens out of training, or None."""
    error: str | None
    """The traceback of a failed rollout, None for all others."""

    def __post_init__(self) -> None:
        if (self.status == "failed") != (self.error is not None):
            raise ValueError(f"status {self.status!r} with error {self.error!r}; exactly failed rollouts have one")

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns over all segments."""
        return tuple(turn for segment in self.segments for turn in segment.turns)

    @property
    def total_reward(self) -> float:
        """The sum of the turns' rewards."""
        return math.fsum(turn.reward for turn in self.turns)


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorOutput:
    """All rollouts of one step, in the order of the requests, and what is needed to understand them alone."""

    rollouts: tuple[Rollout, ...]
    sampling: SamplingParams
    policy_version: int
    envs: Mapping[str, JSON]
    """Per env name: ``{"class": ..., "version": ..., "arguments": {...}}`` with every argument resolved."""
    model_fingerprint: str
    """SHA-256 of the model's config and, in name order, each parameter's name, shape and first 4,096 values
    as float32, from the weights as the engine received them. Empty where no model was involved."""
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorDescription:
    """What a trainer must know of a generator before it starts."""

    num_tasks: Mapping[str, Mapping[str, int]]
    """Tasks per env and split."""
    stop: tuple[str, ...]
    """The stop strings of the envs, in order, without repeats."""
    tokenizer_fingerprint: str
    eos_ids: tuple[int, ...]
    max_context_tokens: int


class Generator(Protocol):
    """Plays rollouts with a policy whose weights it can be sent."""

    def describe(self) -> GeneratorDescription:
        """Say what there is to play, without loading more than that needs."""
        ...

    def generate(self, generator_input: GeneratorInput) -> GeneratorOutput:
        """Play every request. A rollout that breaks is returned as ``failed``, in its place."""
        ...

    def update_weights(self, version: int, named_tensors: Iterable[tuple[str, Any]]) -> None:
        """Take new weights: (parameter name, tensor) pairs, consumed once and in order.

        Called on all ranks, since producing the tensors is collective.
        """
        ...

    def close(self) -> None:
        """Release processes and memory. May be called twice."""
        ...


VOLATILE_CONFIG_KEYS = ("transformers_version", "_name_or_path", "dtype", "torch_dtype", "use_cache")
"""Entries of a model's config that say how it was loaded, not what it is."""


def model_fingerprint(config_json: str, parameters: Iterable[tuple[str, tuple[int, ...], bytes]]) -> str:
    """Identify a model by its config and the beginning of every parameter.

    Args:
        config_json: the model's config as JSON with sorted keys, less ``VOLATILE_CONFIG_KEYS``.
        parameters: (name, shape, the first 4,096 values in row-major order as little-endian float32), of
            every parameter once, a tied one too; in any order.

    Returns:
        SHA-256 in hexadecimal.
    """
    digest = hashlib.sha256(config_json.encode())
    for name, shape, first_values in sorted(parameters):
        digest.update(f"\0{name}\0{shape}\0".encode())
        digest.update(first_values)
    return digest.hexdigest()


def _at_least(name: str, value: float, low: float) -> None:
    if not (math.isfinite(value) and value >= low):
        raise ValueError(f"{name} is {value}; it must be finite and at least {low}")


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it must lie in [{low}, {high}]")


def _same_length(name: str, values: tuple[Any, ...], length: int) -> None:
    if len(values) != length:
        raise ValueError(f"{name} has {len(values)} entries for {length} completion_ids")


def _all_finite(name: str, values: tuple[float, ...]) -> None:
    for index, value in enumerate(values):
        if not math.isfinite(value):
            raise ValueError(f"{name}[{index}] is {value} of {len(values)}; all must be finite")
