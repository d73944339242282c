"""The embedded engine: a model of transformers in this process. The one file of the package that loads a model.

One batch is a forward pass over what is new in each prompt, then one over a token of each sequence at a time, with
finished sequences leaving the batch. Equal prompts are computed once, and a rollout's keys and values are kept for
its next turn. Which tokens a request gets depends on its seed and its ids, and on the batch only through the
rounding of floating-point sums.
"""

import asyncio
import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import Cache, DynamicLayer
from transformers.utils import logging as transformers_logging

from envgym import SetupError
from envgym_generator.engines.distribution import draw, sampled_distribution
from envgym_generator.engines.kv import Kept, KeptStates, LayerStates, RoomyCache
from envgym_generator.engines.protocol import EngineDescription, TurnRequest, TurnSample
from envgym_generator.engines.stopping import Stopping
from envgym_generator.types import VOLATILE_CONFIG_KEYS, FinishReason, RolloutRequest, model_fingerprint

FINGERPRINT_VALUES = 4096
COMPACT_BELOW = 0.75
"""Finished sequences leave the batch once less than this share of it is still sampling: each time costs a copy."""


def build_engine(
    model: str,
    tokenizer: PreTrainedTokenizerBase,
    eos_ids: tuple[int, ...],
    *,
    dtype: str = "float32",
    device: str | None = None,
    max_batch_tokens: int = 131_072,
    kept_mib: int = 1024,
) -> "TransformersEngine":
    """Load a model.

    Args:
        model: folder, or name on a hub.
        tokenizer: the model's.
        eos_ids: ids that end a turn, beside those of the model's generation config.
        dtype: ``float32`` or ``bfloat16``, of the weights and the arithmetic. Log-probabilities are float32.
        device: as torch names it; by default a GPU where there is one.
        max_batch_tokens: most ids, sampled ones and padding included, that a batch may grow to; what does not fit
            is sampled after it.
        kept_mib: memory for keys and values of rollouts between their turns, in MiB; 0 computes them anew.

    Raises:
        SetupError: for a wrong argument, or a model that cannot be loaded.
    """
    if dtype not in ("float32", "bfloat16"):
        raise SetupError(f"engine.args.dtype={dtype} must be float32 or bfloat16")
    try:
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise SetupError(f"engine.args.device={device} is not a device of torch, like cpu or cuda:0") from error
    loaded = _load(model, getattr(torch, dtype), place)
    return TransformersEngine(loaded, tokenizer, eos_ids, max_batch_tokens=max_batch_tokens, kept_mib=kept_mib)


def _load(model: str, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    transformers_logging.disable_progress_bar()
    try:
        loaded = cast(torch.nn.Module, AutoModelForCausalLM.from_pretrained(model, dtype=dtype))
        return cast(PreTrainedModel, loaded.eval().to(device))
    except (OSError, ValueError) as error:
        raise SetupError(f"model {model} cannot be loaded: {' '.join(str(error).split())}") from error
    finally:
        transformers_logging.enable_progress_bar()


class TransformersEngine:
    """See ``Engine``."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        eos_ids: tuple[int, ...],
        *,
        max_batch_tokens: int = 131_072,
        kept_mib: int = 1024,
    ) -> None:
        """Take over a loaded model; its own generation config may name more EOS ids."""
        self._model = _Forward(model)
        self._stopping = Stopping(tokenizer, tuple(dict.fromkeys((*eos_ids, *_generation_eos(model)))))
        self._max_batch_tokens = max_batch_tokens
        self._kept = KeptStates(kept_mib * 2**20 if self._model.num_layers else 0)
        self._fingerprint = _fingerprint(model, model.named_parameters())
        self._waiting: list[tuple[Sequence[TurnRequest], asyncio.Future[list[TurnSample]]]] = []
        self._worker: asyncio.Task[None] | None = None

    def describe(self) -> EngineDescription:
        """Say what the engine is."""
        return EngineDescription(
            eos_ids=self._stopping.eos_ids,
            max_context_tokens=self._model.max_positions,
            model_fingerprint=self._fingerprint,
        )

    async def sample(self, requests: Sequence[TurnRequest]) -> list[TurnSample]:
        """Sample one turn for each request, together with whatever else is waiting to be sampled."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[TurnSample]] = loop.create_future()
        self._waiting.append((requests, future))
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._sample_waiting())
        return await future

    async def _sample_waiting(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # whoever else is ready asks now
            calls, self._waiting = self._waiting, []
            try:
                samples = iter(self._sample_now([request for requests, _ in calls for request in requests]))
            except Exception as error:
                for _, future in calls:
                    future.set_exception(error)
                continue
            for requests, future in calls:
                if not future.done():
                    future.set_result([next(samples) for _ in requests])

    def _sample_now(self, requests: Sequence[TurnRequest]) -> list[TurnSample]:
        samples: dict[int, TurnSample] = {}
        for numbers in split_by_length([_most_ids(request) for request in requests], self._max_batch_tokens):
            batch = _Batch(self._model, self._stopping, self._kept, [requests[number] for number in numbers])
            samples.update(zip(numbers, batch.run(), strict=True))
        return [samples[number] for number in range(len(requests))]

    def release(self, rollout: RolloutRequest) -> None:
        """Drop the states of a rollout that has ended."""
        self._kept.drop(rollout)

    @property
    def kept_bytes(self) -> int:
        """Memory of the keys and values kept between turns."""
        return self._kept.num_bytes

    def update_weights(self, version: int, named_tensors: Iterable[tuple[str, Any]]) -> None:
        """Copy new weights into the model, and drop all states computed with the old ones.

        Raises:
            ValueError: if a parameter is missing, unknown or has another shape.
        """
        self._kept.clear()
        model = self._model.model
        own = dict(model.named_parameters())
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
        self._fingerprint = model_fingerprint(_config_json(model), received)

    def close(self) -> None:
        """Drop all states. The model goes with the object."""
        self._kept.clear()


def _generation_eos(model: PreTrainedModel) -> list[int]:
    eos = model.generation_config.eos_token_id if model.generation_config is not None else None
    return list(eos) if isinstance(eos, list | tuple) else [] if eos is None else [int(eos)]


def _most_ids(request: TurnRequest) -> int:
    return len(request.prompt_ids) + request.max_tokens


def split_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Cut sequences into batches of like length whose ids, padded to the longest, stay within ``max_tokens``.

    >>> list(split_by_length([4, 9, 5, 4], max_tokens=12))
    [[0, 3], [2], [1]]
    """
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        if batch and lengths[number] * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


class _Forward:
    """A model, and what its forward pass must be told."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.device = model.device
        self.max_positions = int(model.config.get_text_config().max_position_embeddings)
        # Renamed in transformers 5.24; models with code of their own keep the old name.
        parameters = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        layers = DynamicCache(config=model.config).layers
        plain = bool(layers) and all(type(layer) is DynamicLayer for layer in layers)
        self.num_layers = len(layers) if plain else 0
        """Layers whose states are one key and one value per position; 0 where some layer keeps others (a sliding
        window, a recurrent state), which then cannot be carried over to another batch."""

    def cache(self, capacity: int) -> Cache:
        """An empty cache for ``capacity`` positions."""
        if self.num_layers:
            return RoomyCache(self.num_layers, capacity)
        return DynamicCache(config=self.model.config)

    def logits(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Cache) -> torch.Tensor:
        """[B, V] logits behind the last id of each row, in float32.

        Args:
            ids: [B, T] the new ids, padded on the left.
            mask: [B, S + T] 1 where an id is, 0 where padding is, of the S cached positions and the new ones.
            positions: [B, T] the place of each new id in its sequence.
            cache: holds S positions, and T more afterwards.
        """
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions.clamp(max=self.max_positions - 1),  # rows that ended run on until they leave
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_argument: cache},
        )
        return output.logits[:, -1].float()


@dataclass(slots=True)
class _Row:
    """One sequence being sampled."""

    request: TurnRequest
    uniforms: np.ndarray
    """[max_tokens] one draw per token, from the request's seed alone."""
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])


class _Batch:
    """Samples one turn of a few requests together."""

    def __init__(
        self, model: _Forward, stopping: Stopping, kept: KeptStates, requests: Sequence[TurnRequest]
    ) -> None:
        self._model = model
        self._stopping = stopping
        self._kept = kept
        self._rows = [
            _Row(request=request, uniforms=np.random.default_rng(request.seed).random(request.max_tokens))
            for request in requests
        ]
        self._sampling = requests[0].sampling
        self._samples: dict[int, TurnSample] = {}

    @torch.inference_mode()
    def run(self) -> list[TurnSample]:
        """Sample until every row has ended."""
        self._read_prompts()
        while True:
            tokens = self._draw()
            going = [place for place, row in enumerate(self._alive) if not self._ended(row, self._columns[place])]
            if not going:
                return [self._samples[number] for number in range(len(self._rows))]
            self._alive = [self._alive[place] for place in going]
            self._columns = [self._columns[place] for place in going]
            self._read_tokens(tokens[going])

    def _read_prompts(self) -> None:
        """Run the model over what is new in each distinct prompt, and give every row a column of the result."""
        prompts = {row.request.prompt_ids: row.request.rollout for row in reversed(self._rows)}
        known = [self._known(prompt, rollout) for prompt, rollout in prompts.items()]
        old = [0 if states is None else states[0][0].shape[1] for states in known]
        width = max(old)
        ids, new = _pad_left([prompt[start:] for prompt, start in zip(prompts, old, strict=True)])
        past = torch.arange(width)[None] >= width - torch.tensor(old)[:, None]
        most = max(row.request.max_tokens for row in self._rows)
        self._cache = self._model.cache(width + ids.shape[1] + most)
        if isinstance(self._cache, RoomyCache) and width:
            self._cache.fill(known, width)
        self._mask = torch.cat([past.long(), new], dim=1).to(self._model.device)
        self._positions = (self._mask.cumsum(1) - 1).clamp(min=0)[:, width:]
        logits = self._model.logits(ids.to(self._model.device), self._mask, self._positions, self._cache)
        numbers = {prompt: number for number, prompt in enumerate(prompts)}
        columns = [numbers[row.request.prompt_ids] for row in self._rows]
        self._logits = logits[columns]
        self._alive = list(range(len(self._rows)))
        """[N] rows that are still sampling."""
        self._columns = list(self._alive)
        """[N] where each of them sits in the batch."""
        self._select(columns)

    def _known(self, prompt: tuple[int, ...], rollout: RolloutRequest) -> LayerStates | None:
        """The states kept of the rollout's earlier turns. The last id is always read again, for its logits."""
        kept = self._kept.find(rollout, prompt)
        return kept.cut(len(prompt) - 1) if kept else None

    def _select(self, columns: list[int]) -> None:
        """Keep these columns of the batch."""
        if columns != list(range(self._mask.shape[0])):
            self._cache.batch_select_indices(torch.tensor(columns, device=self._model.device))
            self._mask, self._positions = self._mask[columns], self._positions[columns]

    def _read_tokens(self, tokens: torch.Tensor) -> None:
        """Run the model over one new token of each living row, [N], once those that ended may have left."""
        if len(self._columns) < COMPACT_BELOW * self._mask.shape[0]:
            self._select(self._columns)
            self._columns = list(range(len(self._columns)))
        ids = torch.zeros((self._mask.shape[0], 1), dtype=torch.long, device=self._model.device)
        ids[self._columns, 0] = tokens
        self._mask = torch.cat([self._mask, torch.ones_like(ids)], dim=1)
        self._positions = self._positions[:, -1:] + 1
        self._logits = self._model.logits(ids, self._mask, self._positions, self._cache)[self._columns]

    def _draw(self) -> torch.Tensor:
        """Draw one token for each living row, [N], and note it with its log-probability."""
        logprobs = sampled_distribution(self._logits, self._sampling)
        uniforms = torch.tensor([self._rows[row].uniforms[len(self._rows[row].ids)] for row in self._alive])
        tokens = draw(logprobs, uniforms.to(logprobs.device))
        chosen = logprobs.gather(1, tokens[:, None])[:, 0]
        for row, token, logprob in zip(self._alive, tokens.tolist(), chosen.tolist(), strict=True):
            self._rows[row].ids.append(token)
            self._rows[row].logprobs.append(logprob)
        return tokens

    def _ended(self, number: int, column: int) -> bool:
        """Whether the row's last token ended its turn; if so, its sample is complete and its states are kept."""
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
        if isinstance(self._cache, RoomyCache):
            positions = self._mask[column].nonzero()[:, 0]
            ids = row.request.prompt_ids + tuple(row.ids[:-1])  # the last one was never read
            self._kept.keep(row.request.rollout, Kept(ids=ids, states=self._cache.states(column, positions)))
        return True


def _pad_left(sequences: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, [B, T] int64 each; the mask is 1 on ids and 0 on padding."""
    length = max(map(len, sequences))
    ids = np.zeros((len(sequences), length), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, length - len(sequence) :] = sequence
        mask[row, length - len(sequence) :] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def _fingerprint(model: PreTrainedModel, named_tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    parameters = [(name, tuple(tensor.shape), _first_values(tensor)) for name, tensor in named_tensors]
    return model_fingerprint(_config_json(model), parameters)


def _config_json(model: PreTrainedModel) -> str:
    config = {key: value for key, value in model.config.to_dict().items() if key not in VOLATILE_CONFIG_KEYS}
    return json.dumps(config, sort_keys=True)


def _first_values(tensor: torch.Tensor) -> bytes:
    values = tensor.detach().flatten()[:FINGERPRINT_VALUES]
    return values.to("cpu", torch.float32).numpy().astype("<f4").tobytes()
