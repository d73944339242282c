"""Log-probabilities of the trained tokens, and of nothing else.

A causal language model is run up to its last hidden states; its vocabulary head is then applied to the positions
that predict a trained token, some at a time, so that the memory for logits does not grow with the batch.
"""

from typing import cast

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from envgym_generator.types import SetupError
from envgym_trainer.batch import Tokens

Statistics = tuple[torch.Tensor, torch.Tensor]
"""Log-probabilities of the trained tokens, and entropies (nats) of the distributions behind them; [N] each."""


def logprobs_and_entropies(
    logits: torch.Tensor, targets: torch.Tensor, temperature: float, *, entropy_gradient: bool = False
) -> Statistics:
    """Statistics of softmax(logits ÷ temperature), in float32.

    Args:
        logits: [N, V].
        targets: [N] int64.
        temperature: above 0.
        entropy_gradient: whether the entropies carry a gradient; without one they cost no memory.
    """
    log_probabilities = torch.log_softmax(logits.float() / temperature, dim=-1)
    logprobs = log_probabilities.gather(-1, targets[:, None]).squeeze(-1)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        # A probability of exactly 0 has a log-probability of -inf, and their product is NaN; its limit is 0.
        finite = log_probabilities.clamp(min=torch.finfo(torch.float32).min)
        entropies = -(finite.exp() * finite).sum(-1)
    return logprobs, entropies


class TrainedTokenModel(nn.Module):
    """A causal language model whose forward pass returns the statistics of trained tokens.

    Being one module, it can be handed to DeepSpeed, whose hooks gather the parameters of each layer in turn.
    """

    def __init__(self, model: PreTrainedModel, chunk_tokens: int) -> None:
        """Wrap a model.

        Args:
            model: with a ``base_model`` that gives hidden states and output embeddings that give logits.
            chunk_tokens: positions whose logits are held at once.
        """
        super().__init__()
        self.model = model
        self.chunk_tokens = chunk_tokens

    def forward(self, tokens: Tokens, temperature: float, entropy_gradient: bool = False) -> Statistics:
        """Run over padded rows and return [N] log-probabilities and entropies, in the order of ``tokens``."""
        hidden_states = _last_hidden_states(self.model, tokens.input_ids)[tokens.rows, tokens.columns]
        if len(tokens.targets) <= self.chunk_tokens:
            return self._head(hidden_states, tokens.targets, temperature, entropy_gradient)
        # Each chunk's logits are computed again in the backward pass instead of being kept until then.
        parts: list[Statistics] = [
            checkpoint(self._head, hidden, targets, temperature, entropy_gradient, use_reentrant=False)
            for hidden, targets in zip(
                hidden_states.split(self.chunk_tokens), tokens.targets.split(self.chunk_tokens), strict=True
            )
        ]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)

    def _head(
        self, hidden_states: torch.Tensor, targets: torch.Tensor, temperature: float, entropy_gradient: bool
    ) -> Statistics:
        logits = _output_embeddings(self.model)(hidden_states)
        return logprobs_and_entropies(logits, targets, temperature, entropy_gradient=entropy_gradient)


def check_plain_head(model: PreTrainedModel) -> None:
    """Make sure that logits are the output embeddings applied to the last hidden states, and no more.

    Raises:
        SetupError: for a model that scales or caps its logits, whose log-probabilities would be wrong here.
    """
    probe = torch.tensor([[0, 1, 2]], device=model.device)
    with torch.no_grad():
        expected = model(input_ids=probe, use_cache=False).logits
        actual = _output_embeddings(model)(_last_hidden_states(model, probe))
    if not torch.allclose(expected, actual, rtol=1e-3, atol=1e-3):
        raise SetupError(
            f"{type(model).__name__} changes its logits behind the output embeddings (a scale or a soft cap), "
            "which this trainer does not reproduce; choose another model"
        )


def _last_hidden_states(model: PreTrainedModel, input_ids: torch.Tensor) -> torch.Tensor:
    # With use_cache on, transformers would build a key-value cache that nobody reads.
    return model.base_model(input_ids=input_ids, use_cache=False).last_hidden_state


def _output_embeddings(model: PreTrainedModel) -> nn.Module:
    return cast(nn.Module, model.get_output_embeddings())
