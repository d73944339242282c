# pyright: strict
"""The policy loss per trained token, and the weights that turn token losses into the loss of a batch.

Every reduction is a weighted sum: the weights depend on the whole batch and are fixed before it is split, so the
loss and its gradient do not depend on how micro-batches are cut.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from envgym_trainer.batch import Row

REDUCTIONS = ("token_mean", "sequence_mean", "fixed_length")

KL_ESTIMATORS = ("k1", "k2", "k3")

MAX_LOG_RATIO = 20.0
"""Log-ratios are cut off here before the exponential: e^20 is past any clip, and e^89 is infinite in float32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """Bounds of the ratio of policies."""

    low: float
    """The ratio counts as 1 − ``low`` below that, where the advantage is negative."""
    high: float
    """The ratio counts as 1 + ``high`` above that, where the advantage is positive."""
    dual: float | None
    """With a negative advantage A, the loss is at most ``dual`` × |A|. None is off."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenLoss:
    """The loss of each trained token."""

    losses: torch.Tensor
    """[N] with gradient."""
    clipped: torch.Tensor
    """[N] bool: a bound holds, and the token has no gradient."""


def policy_loss(
    logprobs: torch.Tensor, sampling_logprobs: torch.Tensor, advantages: torch.Tensor, clip: Clip
) -> TokenLoss:
    """The clipped surrogate of PPO (Schulman et al. 2017) with the dual clip of Ye et al. (2020).

    Args:
        logprobs: [N] of the policy under training, with gradient.
        sampling_logprobs: [N] of the policy that sampled the tokens, without.
        advantages: [N].
        clip: bounds of the ratio exp(logprobs − sampling_logprobs).
    """
    ratio = torch.exp((logprobs - sampling_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO))
    plain = -advantages * ratio
    bounded = -advantages * ratio.clamp(1.0 - clip.low, 1.0 + clip.high)
    losses = torch.maximum(plain, bounded)
    clipped = bounded > plain
    if clip.dual is not None:
        ceiling = torch.where(advantages < 0, -clip.dual * advantages, torch.inf)
        clipped = clipped | (losses > ceiling)
        losses = torch.minimum(losses, ceiling)
    return TokenLoss(losses=losses, clipped=clipped)


def kl_loss(logprobs: torch.Tensor, reference_logprobs: torch.Tensor, estimator: str) -> torch.Tensor:
    """[N] estimates of KL(policy ‖ reference) from one sampled token each (Schulman 2020).

    With d = log π − log π_ref:

    - ``k1``: d. Unbiased, and as a loss of no use: the mean of its gradient is 0 whatever the policies are.
    - ``k2``: d² ÷ 2. Its gradient d ∇log π is, in the mean, that of the divergence.
    - ``k3``: e^(−d) − 1 + d. Unbiased and never negative. Its gradient (1 − e^(−d)) ∇log π is, in the mean, that
      of the reverse divergence KL(reference ‖ policy), and the same where the policies are close.

    Args:
        logprobs: [N] of the policy under training, with gradient.
        reference_logprobs: [N] of the frozen policy, without.
        estimator: one of ``KL_ESTIMATORS``.
    """
    difference = logprobs - reference_logprobs
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return difference.square() / 2
    if estimator == "k3":
        return torch.exp((-difference).clamp(max=MAX_LOG_RATIO)) - 1 + difference
    raise ValueError(f"KL estimator {estimator!r}; known are {', '.join(KL_ESTIMATORS)}")


def token_weights(rows: Sequence[Row], reduction: str, fixed_length: int | None = None) -> list[float]:
    """The weight of each row's trained tokens in the loss of the batch: loss = Σ weight × token loss.

    A sequence is a rollout, all its segments together; one without trained tokens does not count.

    - ``token_mean``: 1 ÷ trained tokens of the batch.
    - ``sequence_mean``: 1 ÷ (sequences × trained tokens of the sequence).
    - ``fixed_length``: 1 ÷ (sequences × ``fixed_length``).

    Args:
        rows: the whole batch.
        reduction: one of ``REDUCTIONS``.
        fixed_length: of ``fixed_length``.

    Returns:
        One weight per row, which all its tokens share.

    Raises:
        ValueError: for an unknown reduction, or ``fixed_length`` without a length.
    """
    lengths: Counter[int] = Counter()
    for row in rows:
        lengths[row.rollout] += row.num_trained
    if reduction == "token_mean":
        return [1.0 / lengths.total() for _ in rows]
    if reduction == "sequence_mean":
        return [1.0 / (len(lengths) * lengths[row.rollout]) for row in rows]
    if reduction == "fixed_length" and fixed_length:
        return [1.0 / (len(lengths) * fixed_length) for _ in rows]
    raise ValueError(
        f"reduction {reduction!r} with fixed_length {fixed_length}; known are {', '.join(REDUCTIONS)}"
    )
