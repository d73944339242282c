"""The policy under training: a language model behind a DeepSpeed engine. The one file that imports deepspeed."""

import atexit
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._distributed_c10d import HashStore
from transformers import PreTrainedModel

from envgym_generator.types import SetupError
from envgym_trainer.batch import Tokens
from envgym_trainer.logprob import Statistics, TrainedTokenModel


def _import_deepspeed() -> Any:
    """Import DeepSpeed so that it neither probes, nor compiles, nor talks."""
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # read at import; unset, it looks for hardware and warns
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    import deepspeed
    import deepspeed.ops

    # On CPU, a shared-memory collective would be built with g++ at first use. Gloo does the same work.
    deepspeed.ops.__dict__["__compatible_ops__"] = {}
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    return deepspeed


deepspeed = _import_deepspeed()


@dataclass(kw_only=True)
class OptimizerSection:
    """AdamW and what is done to its gradients. The learning rate is an argument of each step."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm; 0 leaves them as they are."""
    deepspeed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """DeepSpeed's own settings, passed on."""


OWN_DEEPSPEED_KEYS = {
    "gradient_clipping": "max_grad_norm",
    "gradient_accumulation_steps": "micro_batch_tokens",
    "train_batch_size": "tasks_per_step and group_size",
    "train_micro_batch_size_per_gpu": "micro_batch_tokens",
    "optimizer": "lr, betas, eps and weight_decay",
    "scheduler": "schedule and warmup_steps",
}
"""Settings of DeepSpeed that ours decide, and which ones do."""


class DeepSpeedPolicy:
    """A causal language model that can be evaluated on trained tokens, and stepped.

    Micro-batches add up: each ``backward`` adds the gradient of its loss, and ``step`` applies the sum. Losses
    must therefore be divided by denominators of the whole batch.
    """

    def __init__(self, model: PreTrainedModel, section: OptimizerSection, *, chunk_tokens: int = 1024) -> None:
        """Hand a model to DeepSpeed, which from then on owns its parameters.

        Args:
            model: on the CPU, in float32. Its dropout is switched off: it would break the ratio of policies.
            section: optimizer and DeepSpeed settings.
            chunk_tokens: positions whose logits are held at once.

        Raises:
            SetupError: if DeepSpeed refuses its settings.
        """
        join_process_group()
        self.model = model.eval()
        self._tokens_model = TrainedTokenModel(model, chunk_tokens)
        config = engine_config(section)
        try:
            self._engine, *_ = deepspeed.initialize(model=self._tokens_model, config=config)
        except (ValueError, AssertionError) as error:  # pydantic's ValidationError is a ValueError
            raise SetupError(f"DeepSpeed refuses the settings under deepspeed: {_one_line(error)}") from error

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self._engine.device

    def statistics(self, tokens: Tokens, temperature: float, *, entropy_gradient: bool = False) -> Statistics:
        """Log-probabilities and entropies of the trained tokens, [N] each, with gradient."""
        return self._engine(tokens.to(self.device), temperature, entropy_gradient)

    def backward(self, loss: torch.Tensor, *, last: bool) -> None:
        """Add the gradient of a micro-batch.

        Args:
            loss: scalar; the losses of all micro-batches are summed.
            last: whether this is the last micro-batch before ``step``.
        """
        self._engine.set_gradient_accumulation_boundary(last)
        self._engine.backward(loss)

    def step(self, learning_rate: float) -> float:
        """Clip the summed gradient, apply it and clear it.

        Returns:
            The norm of the gradient before clipping.
        """
        for group in self._engine.optimizer.param_groups:
            group["lr"] = learning_rate
        # Stage 0 clips and says nothing; the other stages report the norm that they computed.
        norm = self._plain_gradient_norm() if self._engine.zero_optimization_stage() == 0 else None
        self._engine.step()
        return float(self._engine.get_global_grad_norm() if norm is None else norm)

    def _plain_gradient_norm(self) -> torch.Tensor:
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        return torch.nn.utils.get_total_norm(gradients)

    def named_parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every parameter in full, by the name that the model gives it: one gather per parameter.

        A tensor holds good only until the next one is asked for. Called on all ranks.
        """
        for name, parameter in self.model.named_parameters():
            with deepspeed.zero.GatheredParameters([parameter]):
                yield name, parameter.detach()

    def close(self) -> None:
        """Let go of the engine. Below stage 3 the model goes on as a plain module."""
        self._engine.destroy()


def engine_config(section: OptimizerSection) -> dict[str, Any]:
    """The configuration that DeepSpeed gets: the user's settings, and ours beside them.

    Raises:
        SetupError: if the user's settings set what a key of ours decides.
    """
    for key, own in OWN_DEEPSPEED_KEYS.items():
        if key in section.deepspeed:
            raise SetupError(f"deepspeed.{key} is decided by {own}; set that instead")
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,  # the boundary is set by hand: the number of micro-batches varies
        "gradient_clipping": section.max_grad_norm,
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": 0.0,
                "betas": list(section.betas),
                "eps": section.eps,
                "weight_decay": section.weight_decay,
                "torch_adam": True,  # DeepSpeed's own needs a compiler at first use
                "fused": True,
            },
        },
        "zero_allow_untested_optimizer": True,
        **section.deepspeed,
    }


def join_process_group() -> None:
    """Make this process a group of its own, once. No port is opened."""
    if not torch.distributed.is_initialized():
        os.environ.setdefault("LOCAL_RANK", "0")
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        store = HashStore()
        torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
        deepspeed.init_distributed(dist_backend=backend)
        atexit.register(torch.distributed.destroy_process_group)


def _one_line(error: Exception) -> str:
    """The message without pydantic's link to its manual."""
    return " ".join(line.strip() for line in str(error).splitlines() if "For further information" not in line)
