"""A public engine without a model: it says what a script tells it to. For tests, examples and controls."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from envgym import SetupError
from envgym_generator.dotted_path import load_attribute
from envgym_generator.engines.protocol import EngineDescription, TurnRequest, TurnSample
from envgym_generator.engines.stopping import Stopping, first_stop
from envgym_generator.types import RolloutRequest

Script = Callable[[TurnRequest], str]
"""Gives the text of a turn. A turn that contains a stop string ends there, any other ends with EOS."""


def build_engine(
    model: str,
    tokenizer: PreTrainedTokenizerBase,
    eos_ids: tuple[int, ...],
    *,
    script: Script | str | Sequence[Sequence[str]],
    latency_s: float = 0.0,
    max_context_tokens: int = 1_000_000,
) -> "FakeEngine":
    """Build a scripted engine.

    Args:
        model: only names the tokenizer.
        tokenizer: encodes the script.
        eos_ids: the first one ends a turn that contains no stop string.
        script: a function, its dotted path ``package.module:function``, or texts by (task_index, turn); both
            indices wrap around.
        latency_s: how long each call takes.
        max_context_tokens: what the engine claims to hold.
    """
    if isinstance(script, str):
        script = load_attribute(script, "engine.args.script")
    if not callable(script):
        script = _script_from_texts(script)
    return FakeEngine(script, tokenizer, eos_ids, latency_s=latency_s, max_context_tokens=max_context_tokens)


def _script_from_texts(texts: Sequence[Sequence[str]]) -> Script:
    if not texts or not all(texts):
        raise SetupError("engine.args.script holds no texts; give a list of turns for each task")

    def say(request: TurnRequest) -> str:
        turns = texts[request.rollout.task_index % len(texts)]
        return turns[request.turn % len(turns)]

    return say


class FakeEngine:
    """See ``Engine``. Its text is encoded once, and those ids count as sampled; there are no log-probabilities."""

    def __init__(
        self,
        script: Script,
        tokenizer: PreTrainedTokenizerBase,
        eos_ids: tuple[int, ...],
        *,
        latency_s: float,
        max_context_tokens: int,
    ) -> None:
        """See ``build_engine``."""
        self._script = script
        self._tokenizer = tokenizer
        self._stopping = Stopping(tokenizer, eos_ids)
        self._latency_s = latency_s
        self._max_context_tokens = max_context_tokens

    def describe(self) -> EngineDescription:
        """Say what the engine is; there is no model to take a fingerprint of."""
        return EngineDescription(
            eos_ids=self._stopping.eos_ids, max_context_tokens=self._max_context_tokens, model_fingerprint=""
        )

    async def sample(self, requests: Sequence[TurnRequest]) -> list[TurnSample]:
        """Read each request's turn from the script."""
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        return [
            scripted_sample(self._script(request), request, self._tokenizer, self._stopping)
            for request in requests
        ]

    def release(self, rollout: RolloutRequest) -> None:
        """Nothing is kept between turns."""

    def update_weights(self, version: int, named_tensors: Iterable[tuple[str, Any]]) -> None:
        """Nothing is done with weights here."""

    def close(self) -> None:
        """Nothing is held."""


def scripted_sample(
    text: str, request: TurnRequest, tokenizer: PreTrainedTokenizerBase, stopping: Stopping
) -> TurnSample:
    """Encode a text as if it had been sampled: up to its first stop string, or with an EOS id behind it."""
    end, stop_string = first_stop(text, request.stop) or (len(text), None)
    ids = tokenizer(text[:end], add_special_tokens=False, split_special_tokens=True)["input_ids"]
    if stop_string is None:
        ids = [*ids, stopping.eos_ids[0]]
    if len(ids) <= request.max_tokens:
        return TurnSample(
            ids=tuple(ids), logprobs=None, text=text[:end], finish_reason="stop", stop_string=stop_string
        )
    ids = ids[: request.max_tokens]
    return TurnSample(
        ids=tuple(ids), logprobs=None, text=stopping.decode(ids), finish_reason="length", stop_string=None
    )
