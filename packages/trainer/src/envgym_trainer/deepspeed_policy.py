"""The policy under training: a language model behind a DeepSpeed engine. The one file that imports deepspeed."""

import atexit
import logging
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import HashStore
from transformers import PreTrainedModel

from envgym_generator.types import SetupError
from envgym_trainer.batch import Tokens
from envgym_trainer.errors import RunError
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
    dtype: str = "float32"
    """Or ``bfloat16``, for which the optimizer keeps float32 master weights."""
    deepspeed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """DeepSpeed's own settings, passed on."""


OWN_DEEPSPEED_KEYS = {
    "gradient_clipping": "max_grad_norm",
    "gradient_accumulation_steps": "micro_batch_tokens",
    "train_batch_size": "tasks_per_step and group_size",
    "train_micro_batch_size_per_gpu": "micro_batch_tokens",
    "optimizer": "lr, betas, eps and weight_decay",
    "scheduler": "schedule and warmup_steps",
    "bf16": "model.dtype",
    "fp16": "model.dtype",
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
        self._dtype = section.dtype
        config = engine_config(section)
        try:
            with whole_buffers(model):
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

        Raises:
            RunError: if it is not finite; the weights are lost.
        """
        for group in self._engine.optimizer.param_groups:
            group["lr"] = learning_rate
        # Stage 0 in float32 clips and says nothing; all else reports the norm that it computed.
        silent = self._engine.zero_optimization_stage() == 0 and self._dtype == "float32"
        norm = self._plain_gradient_norm() if silent else None
        self._engine.step()
        norm = float(self._engine.get_global_grad_norm() if norm is None else norm)
        if not math.isfinite(norm):
            raise RunError(f"the norm of the gradient is {norm}; lower the learning rate, or look at the rollouts")
        return norm

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


class Reference:
    """A frozen policy, which the trained one is kept close to.

    In stage 3 its parameters are divided over the ranks as the policy's are; below it, each rank has a copy.
    """

    def __init__(self, model: PreTrainedModel, section: OptimizerSection, *, chunk_tokens: int = 1024) -> None:
        """Take over a model.

        Args:
            model: on the CPU, in float32.
            section: of the policy; dtype and DeepSpeed settings are read.
            chunk_tokens: positions whose logits are held at once.
        """
        join_process_group()
        model = model.eval().requires_grad_(False)
        tokens_model = TrainedTokenModel(model, chunk_tokens)
        if _stage(section) < 3:
            self._model: Any = tokens_model.to(local_device())
            for parameter in model.parameters():
                parameter.data = parameter.data.to(getattr(torch, section.dtype))
            return
        config = {key: value for key, value in engine_config(section).items() if "optimizer" not in key}
        with whole_buffers(model):
            self._model, *_ = deepspeed.initialize(model=tokens_model, config=config)

    @torch.no_grad()
    def logprobs(self, tokens: Tokens, temperature: float) -> torch.Tensor:
        """[N] log-probabilities of the trained tokens."""
        return self._model(tokens.to(local_device()), temperature, False)[0]


def local_device() -> torch.device:
    """Where this process computes."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def _stage(section: OptimizerSection) -> int:
    return int(section.deepspeed.get("zero_optimization", {}).get("stage", 0))


@contextmanager
def whole_buffers(model: PreTrainedModel) -> Iterator[None]:
    """Leave buffers as precise as they are: rounded to bfloat16, rotary frequencies would not be the engine's."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    yield
    for name, buffer in model.named_buffers():
        buffer.data = buffers[name].to(buffer.device)


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
        "bf16": {"enabled": section.dtype == "bfloat16"},
        **section.deepspeed,
    }


def join_process_group() -> None:
    """Join the processes that a launcher started, or make this one a group of its own, without a port. Once."""
    if torch.distributed.is_initialized():
        return
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    os.environ.setdefault("LOCAL_RANK", "0")
    if "RANK" in os.environ:
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        # How long a rank may wait is for the watchdog of ``ranks`` to say, which names the place.
        torch.distributed.init_process_group(backend, timeout=timedelta(days=1))
    else:
        torch.distributed.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    deepspeed.init_distributed(dist_backend=backend)
    atexit.register(torch.distributed.destroy_process_group)


def _one_line(error: Exception) -> str:
    """The message without pydantic's link to its manual."""
    return " ".join(line.strip() for line in str(error).splitlines() if "For further information" not in line)
