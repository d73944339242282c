"""Scripted experts at play: each turn is what the env's own ``demonstrate`` does next."""

from collections.abc import Iterable, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from envgym_generator.engines.fake import scripted_sample
from envgym_generator.engines.protocol import EngineDescription, TurnRequest, TurnSample
from envgym_generator.engines.stopping import Stopping
from envgym_generator.types import RolloutRequest


def build_engine(
    model: str,
    tokenizer: PreTrainedTokenizerBase,
    eos_ids: tuple[int, ...],
    *,
    max_context_tokens: int = 1_000_000,
) -> "ExpertEngine":
    """Build the engine; ``model`` only names the tokenizer."""
    return ExpertEngine(tokenizer, eos_ids, max_context_tokens)


class ExpertEngine:
    """See ``Engine``."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, eos_ids: tuple[int, ...], max_context_tokens: int
    ) -> None:
        """Encode what experts say with ``tokenizer``."""
        self._tokenizer = tokenizer
        self._stopping = Stopping(tokenizer, eos_ids)
        self._max_context_tokens = max_context_tokens

    def describe(self) -> EngineDescription:
        """Say what the engine is; there is no model to take a fingerprint of."""
        return EngineDescription(
            eos_ids=self._stopping.eos_ids, max_context_tokens=self._max_context_tokens, model_fingerprint=""
        )

    async def sample(self, requests: Sequence[TurnRequest]) -> list[TurnSample]:
        """Ask each env's expert."""
        return [
            scripted_sample(await request.demonstrate(), request, self._tokenizer, self._stopping)
            for request in requests
        ]

    def release(self, rollout: RolloutRequest) -> None:
        """Nothing is kept between turns."""

    def update_weights(self, version: int, named_tensors: Iterable[tuple[str, Any]]) -> None:
        """Experts do not learn."""

    def close(self) -> None:
        """Nothing is held."""
