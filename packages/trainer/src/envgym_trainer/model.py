"""Loading a policy for training and saving it as a folder that ``transformers`` loads."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar, enable_progress_bar

from envgym_generator.types import SetupError
from envgym_trainer.logprob import check_plain_head
from envgym_trainer.model_folder import check_model_folder, copy_tokenizer


@contextmanager
def without_bars() -> Iterator[None]:
    """Inside, transformers draws no progress bars: a run has one of its own."""
    disable_progress_bar()
    try:
        yield
    finally:
        enable_progress_bar()


def load_model(folder: Path) -> PreTrainedModel:
    """Load a causal language model in float32, with dropout off.

    Raises:
        SetupError: if the folder is incomplete or holds something else.
    """
    check_model_folder(folder)
    try:
        with without_bars():
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    except (OSError, ValueError, KeyError, json.JSONDecodeError) as error:
        reason = " ".join(str(error).split())
        raise SetupError(f"model folder {folder} cannot be loaded as a causal language model: {reason}") from error
    model = cast(PreTrainedModel, model).eval()
    check_plain_head(model)
    return model


def save_model(
    model: PreTrainedModel, named_parameters: Iterable[tuple[str, torch.Tensor]], source: Path, target: Path
) -> None:
    """Write config, weights as safetensors, and the tokenizer files of ``source``.

    Args:
        model: gives config and class; its own parameters may be partitioned and are not read.
        named_parameters: every parameter in full; each tensor is copied before the next one is asked for.
        source: the folder that the model came from.
        target: is made; must not exist.
    """
    target.mkdir(parents=True)
    state = {name: tensor.to("cpu", copy=True).contiguous() for name, tensor in named_parameters}
    with without_bars():
        model.save_pretrained(target, state_dict=state)
    copy_tokenizer(source, target)
