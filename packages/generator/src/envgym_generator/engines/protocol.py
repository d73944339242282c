"""The engine protocol: ids in, ids out, one turn at a time."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from envgym_generator.types import FinishReason, RolloutRequest, SamplingParams


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """One turn to be sampled."""

    rollout: RolloutRequest
    turn: int
    """From 0."""
    prompt_ids: tuple[int, ...]
    """[P] everything so far: the prompt and the completion up to here."""
    max_tokens: int
    """Most ids to sample, at least 1."""
    stop: tuple[str, ...]
    """Strings that end the turn."""
    sampling: SamplingParams
    """Temperature and filters; its budgets and ``stop`` are already in the fields above."""
    seed: int
    demonstrate: Callable[[], Awaitable[str]]
    """Asks the env's scripted expert for its next action; for the ``expert`` engine."""

    @property
    def order(self) -> tuple[str, str, int, int, int]:
        """The order in which requests join a deterministic batch."""
        return (*self.rollout.group, self.rollout.sample_index, self.turn)


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnSample:
    """What an engine sampled for one turn."""

    ids: tuple[int, ...]
    """[N] every sampled id, a final EOS and what the last token carries behind a stop string included."""
    logprobs: tuple[float, ...] | None
    """[N] under the distribution that was sampled, or None where the text was scripted."""
    text: str
    """The decoded ids without a final EOS id, cut behind the stop string that ended the turn."""
    finish_reason: FinishReason
    stop_string: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineDescription:
    """What the rollout loop must know of an engine."""

    eos_ids: tuple[int, ...]
    """Every id that ends a turn."""
    max_context_tokens: int
    """Most ids that the model can hold, sampled ones included."""
    model_fingerprint: str
    """See ``GeneratorOutput.model_fingerprint``; empty for an engine without a model."""


class Engine(Protocol):
    """Samples turns.

    An engine is built by a function ``build_engine(model, tokenizer, eos_ids, *, ...)``, which config names as
    ``engine.target``. ``model`` is a folder or hub name, ``tokenizer`` the one that prompts were encoded with,
    ``eos_ids`` are the ids that end a turn by the tokenizer and its chat template, and what follows by name is set
    by ``engine.args``.
    """

    def describe(self) -> EngineDescription:
        """Say what the engine is; the fingerprint follows the weights."""
        ...

    async def sample(self, requests: Sequence[TurnRequest]) -> list[TurnSample]:
        """Sample one turn for each request, in their order."""
        ...

    def release(self, rollout: RolloutRequest) -> None:
        """Learn that a rollout asks for no more turns: what is kept for its next one can go."""
        ...

    def update_weights(self, version: int, named_tensors: Iterable[tuple[str, Any]]) -> None:
        """Take new weights, and drop every cache that depends on the old ones."""
        ...

    def close(self) -> None:
        """Release memory and processes. May be called twice."""
        ...
