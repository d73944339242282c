"""From logits to a token: the distribution that is sampled, and the draw from it."""

import math

import torch

from envgym_generator.types import SamplingParams


def sampled_distribution(logits: torch.Tensor, sampling: SamplingParams) -> torch.Tensor:
    """Log-probabilities of the distribution that tokens are drawn from, [B, V].

    After temperature, top-k, top-p and min-p, in that order, and normalised again. Temperature 0 puts everything
    on the first of the largest logits.

    Args:
        logits: [B, V], float32.
        sampling: temperature and filters.
    """
    if sampling.temperature == 0:
        greedy = torch.full_like(logits, -torch.inf)
        return greedy.scatter(1, logits.argmax(dim=-1, keepdim=True), 0.0)
    logprobs = torch.log_softmax(logits / sampling.temperature, dim=-1)
    if sampling.top_k:
        logprobs = _renormalised(logprobs, logprobs < _kth_largest(logprobs, sampling.top_k))
    if sampling.top_p < 1.0:
        logprobs = _renormalised(logprobs, _behind_nucleus(logprobs, sampling.top_p))
    if sampling.min_p > 0.0:
        floor = logprobs.max(dim=-1, keepdim=True).values + math.log(sampling.min_p)
        logprobs = _renormalised(logprobs, logprobs < floor)
    return logprobs


def _renormalised(logprobs: torch.Tensor, dropped: torch.Tensor) -> torch.Tensor:
    return logprobs.masked_fill(dropped, -torch.inf).log_softmax(dim=-1)


def _kth_largest(logprobs: torch.Tensor, k: int) -> torch.Tensor:
    return logprobs.topk(min(k, logprobs.shape[-1]), dim=-1).values[:, -1:]


def _behind_nucleus(logprobs: torch.Tensor, top_p: float) -> torch.Tensor:
    """Which tokens are not among the fewest that hold ``top_p`` together; the most probable one always is."""
    ordered, order = logprobs.sort(dim=-1, descending=True, stable=True)
    before = ordered.exp().cumsum(dim=-1) - ordered.exp()  # what the more probable tokens hold
    dropped = before >= top_p
    dropped[:, 0] = False
    return torch.zeros_like(dropped).scatter(1, order, dropped)


def draw(logprobs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Draw one token per row by inverting the cumulative distribution.

    Args:
        logprobs: [B, V], normalised.
        uniforms: [B], in [0, 1).

    Returns:
        [B] token ids, each of positive probability.
    """
    cumulative = logprobs.double().exp().cumsum(dim=-1)
    total = cumulative[:, -1:]
    target = torch.minimum(uniforms.double()[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    # The first entry above the target; an entry of probability 0 never exceeds what stands before it.
    return torch.searchsorted(cumulative, target, right=True)[:, 0]
