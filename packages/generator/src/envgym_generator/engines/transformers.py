"""The embedded engine: a model of transformers in this process. The one file of the package that loads a model.

One ``sample`` call is one batch: a forward pass over the prompts, then one over a token of each sequence at a
time, with finished sequences leaving the batch. Which tokens a request gets depends on its seed and its ids, and
on the batch only through the rounding of floating-point sums.
"""

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from envgym import SetupError
from envgym_generator.engines.protocol import EngineDescription, TurnRequest, TurnSample
from envgym_generator.engines.stopping import Stopping
from envgym_generator.types import VOLATILE_CONFIG_KEYS, FinishReason, SamplingParams, model_fingerprint

FINGERPRINT_VALUES = 4096
COMPACT_BELOW = 0.75
"""Finished sequences leave the batch once less than this share of it is still sampling: each time costs a copy."""

# transformers is renaming the argument; both names work in every version this package allows.
warnings.filterwarnings("ignore", message="`past_key_values` is deprecated", category=FutureWarning)


def build_engine(
    model: str,
    tokenizer: PreTrainedTokenizerBase,
    eos_ids: tuple[int, ...],
    *,
    dtype: str = "float32",
    device: str | None = None,
    max_batch_tokens: int = 65_536,
) -> "TransformersEngine":
    """Load a model.

    Args:
        model: folder, or name on a hub.
        tokenizer: the model's.
        eos_ids: ids that end a turn, beside those of the model's generation config.
        dtype: ``float32`` or ``bfloat16``, of the weights and the arithmetic. Log-probabilities are float32.
        device: as torch names it; by default a GPU where there is one.
        max_batch_tokens: most ids of one forward pass over prompts, padding included; more are sampled in turns.

    Raises:
        SetupError: for a wrong argument, or a model that cannot be loaded.
    """
    if dtype not in ("float32", "bfloat16"):
        raise SetupError(f"engine.args.dtype={dtype} must be float32 or bfloat16")
    try:
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
    except (OSError, ValueError) as error:
        raise SetupError(f"model {model} cannot be loaded: {' '.join(str(error).split())}") from error
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return TransformersEngine(
        cast(PreTrainedModel, loaded.to(place).eval()), tokenizer, eos_ids, max_batch_tokens=max_batch_tokens
    )


class TransformersEngine:
    """See ``Engine``."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        eos_ids: tuple[int, ...],
        *,
        max_batch_tokens: int,
    ) -> None:
        """Take over a loaded model; its own generation config may name more EOS ids."""
        self._model = model
        self._stopping = Stopping(tokenizer, tuple(dict.fromkeys((*eos_ids, *_generation_eos(model)))))
        self._max_batch_tokens = max_batch_tokens
        self._fingerprint = _fingerprint(model, model.named_parameters())

    def describe(self) -> EngineDescription:
        """Say what the engine is."""
        return EngineDescription(
            eos_ids=self._stopping.eos_ids,
            max_context_tokens=int(self._model.config.max_position_embeddings),
            model_fingerprint=self._fingerprint,
        )

    async def sample(self, requests: Sequence[TurnRequest]) -> list[TurnSample]:
        """Sample one turn for each request."""
        samples: list[TurnSample] = []
        for batch in _split(requests, self._max_batch_tokens):
            samples += _Batch(self._model, self._stopping, batch).run()
        return samples

    def update_weights(self, version: int, named_tensors: Iterable[tuple[str, Any]]) -> None:
        """Copy new weights into the model.

        Raises:
            ValueError: if a parameter is missing, unknown or has another shape.
        """
        own = dict(self._model.named_parameters())
        received: list[tuple[str, tuple[int, ...], bytes]] = []
        with torch.no_grad():
            for name, tensor in named_tensors:
                if name not in own or own[name].shape != tensor.shape:
                    expected = f"shape {tuple(own[name].shape)}" if name in own else "no such parameter"
                    raise ValueError(f"weights of version {version}: {name} {tuple(tensor.shape)}, but {expected}")
                own[name].copy_(tensor)
                received.append((name, tuple(tensor.shape), _first_values(tensor)))
        if missing := own.keys() - {name for name, _, _ in received}:
            raise ValueError(f"weights of version {version} lack {len(missing)} parameters, {min(missing)} first")
        self._fingerprint = model_fingerprint(_config_json(self._model), received)

    def close(self) -> None:
        """Nothing but memory is held, which goes with the object."""


def _generation_eos(model: PreTrainedModel) -> list[int]:
    eos = model.generation_config.eos_token_id if model.generation_config is not None else None
    return list(eos) if isinstance(eos, list | tuple) else [] if eos is None else [int(eos)]


def _split(requests: Sequence[TurnRequest], max_tokens: int) -> Iterable[list[TurnRequest]]:
    """Consecutive batches whose prompts, padded to the longest, stay within ``max_tokens``."""
    batch: list[TurnRequest] = []
    longest = 0
    for request in requests:
        longest = max(longest, len(request.prompt_ids))
        if batch and longest * (len(batch) + 1) > max_tokens:
            yield batch
            batch, longest = [], len(request.prompt_ids)
        batch.append(request)
    if batch:
        yield batch


@dataclass(slots=True)
class _Row:
    """One sequence being sampled."""

    request: TurnRequest
    uniforms: np.ndarray
    """[max_tokens] one draw per token, from the request's seed alone."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class _Batch:
    """Samples one turn of a few requests together."""

    def __init__(self, model: PreTrainedModel, stopping: Stopping, requests: Sequence[TurnRequest]) -> None:
        self._model = model
        self._stopping = stopping
        self._rows = [
            _Row(request=request, uniforms=np.random.default_rng(request.seed).random(request.max_tokens))
            for request in requests
        ]
        self._sampling = requests[0].sampling
        self._samples: dict[int, TurnSample] = {}

    @torch.inference_mode()
    def run(self) -> list[TurnSample]:
        """Sample until every row has ended."""
        ids, mask = _pad_left([row.request.prompt_ids for row in self._rows], self._model.device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        cache = DynamicCache(config=self._model.config)
        alive = list(range(len(self._rows)))  # rows still sampling
        columns = list(alive)  # where each of them sits in the batch
        while True:
            logits = self._forward(ids, mask, positions, cache)[columns]
            tokens = self._draw(alive, logits)
            going = [place for place, row in enumerate(alive) if not self._ended(row)]
            if not going:
                return [self._samples[number] for number in range(len(self._rows))]
            columns, alive = [columns[place] for place in going], [alive[place] for place in going]
            batch = mask.shape[0]
            ids = torch.zeros((batch, 1), dtype=torch.long, device=mask.device)
            ids[columns, 0] = tokens[going]
            if len(columns) < COMPACT_BELOW * batch:
                cache.batch_select_indices(torch.tensor(columns, device=mask.device))
                ids, mask, positions = ids[columns], mask[columns], positions[columns]
                columns = list(range(len(columns)))
            mask = torch.cat([mask, mask.new_ones((mask.shape[0], 1))], dim=1)
            positions = positions[:, -1:] + 1

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: DynamicCache
    ) -> torch.Tensor:
        """[B, V] logits behind the last id of each row, in float32."""
        output = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1].float()

    def _draw(self, alive: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        """Draw one token for each living row, [N], and note it with its log-probability."""
        logprobs = sampled_distribution(logits, self._sampling)
        uniforms = torch.tensor([self._rows[row].uniforms[len(self._rows[row].ids)] for row in alive])
        tokens = pick(logprobs, uniforms.to(logits.device))
        chosen = logprobs.gather(1, tokens[:, None])[:, 0]
        for row, token, logprob in zip(alive, tokens.tolist(), chosen.tolist(), strict=True):
            self._rows[row].ids.append(token)
            self._rows[row].logprobs.append(logprob)
        return tokens

    def _ended(self, number: int) -> bool:
        """Whether the row's last token ended its turn; if so, its sample is complete."""
        row = self._rows[number]
        end = self._stopping.end_of(row.ids, row.request.stop)
        reason: FinishReason = "stop"
        if end is None:
            if len(row.ids) < row.request.max_tokens:
                return False
            reason = "length"
        self._samples[number] = TurnSample(
            ids=tuple(row.ids),
            logprobs=tuple(row.logprobs),
            text=self._stopping.decode(row.ids) if end is None else end.text,
            finish_reason=reason,
            stop_string=None if end is None else end.stop_string,
        )
        return True


def _pad_left(sequences: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, [B, T] each; the mask is 1 on ids and 0 on padding."""
    length = max(map(len, sequences))
    ids = np.zeros((len(sequences), length), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, length - len(sequence) :] = sequence
        mask[row, length - len(sequence) :] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def sampled_distribution(logits: torch.Tensor, sampling: SamplingParams) -> torch.Tensor:
    """Log-probabilities of the distribution that tokens are drawn from, [B, V].

    After temperature, top-k, top-p and min-p, in that order, and normalised again. Temperature 0 puts everything
    on the first of the largest logits.
    """
    if sampling.temperature == 0:
        greedy = torch.full_like(logits, -torch.inf)
        return greedy.scatter(1, logits.argmax(dim=-1, keepdim=True), 0.0)
    logprobs = torch.log_softmax(logits / sampling.temperature, dim=-1)
    if sampling.is_full_distribution:
        return logprobs
    if sampling.top_k:
        smallest = logprobs.topk(min(sampling.top_k, logprobs.shape[-1]), dim=-1).values[:, -1:]
        logprobs = logprobs.masked_fill(logprobs < smallest, -torch.inf).log_softmax(dim=-1)
    if sampling.top_p < 1.0:
        ordered, order = logprobs.sort(dim=-1, descending=True, stable=True)
        before = ordered.exp().cumsum(dim=-1) - ordered.exp()  # what the more probable tokens hold together
        drop = torch.zeros_like(logprobs, dtype=torch.bool).scatter(1, order, before >= sampling.top_p)
        drop.scatter_(1, order[:, :1], False)
        logprobs = logprobs.masked_fill(drop, -torch.inf).log_softmax(dim=-1)
    if sampling.min_p > 0.0:
        floor = logprobs.max(dim=-1, keepdim=True).values + np.log(sampling.min_p)
        logprobs = logprobs.masked_fill(logprobs < floor, -torch.inf).log_softmax(dim=-1)
    return logprobs


def pick(logprobs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Draw one token per row by inverting the cumulative distribution.

    Args:
        logprobs: [B, V], normalised.
        uniforms: [B], in [0, 1).

    Returns:
        [B] token ids, each of positive probability.
    """
    cumulative = logprobs.double().exp().cumsum(dim=-1)
    target = uniforms.double()[:, None] * cumulative[:, -1:]
    # The first entry above the target; an entry of probability 0 never exceeds what stands before it.
    return torch.searchsorted(cumulative, target, right=True)[:, 0].clamp(max=logprobs.shape[-1] - 1)


def _fingerprint(model: PreTrainedModel, named_tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    parameters = [(name, tuple(tensor.shape), _first_values(tensor)) for name, tensor in named_tensors]
    return model_fingerprint(_config_json(model), parameters)


def _config_json(model: PreTrainedModel) -> str:
    config = {key: value for key, value in model.config.to_dict().items() if key not in VOLATILE_CONFIG_KEYS}
    return json.dumps(config, sort_keys=True)


def _first_values(tensor: torch.Tensor) -> bytes:
    values = tensor.detach().flatten()[:FINGERPRINT_VALUES]
    return values.to("cpu", torch.float32).numpy().astype("<f4").tobytes()
