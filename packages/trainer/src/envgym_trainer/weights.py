"""Sending weights to a generator, and knowing which weights were sent."""

import json
from collections.abc import Iterable, Iterator

import torch
from transformers import PretrainedConfig

from envgym_generator.types import VOLATILE_CONFIG_KEYS, Generator, model_fingerprint

FINGERPRINT_VALUES = 4096
"""Of each parameter, as the contract says."""


def send_weights(
    generator: Generator, version: int, config: PretrainedConfig, named_tensors: Iterable[tuple[str, torch.Tensor]]
) -> str:
    """Give the generator new weights.

    Every tensor is produced, even where the generator does not want it: producing one is collective, and its first
    values are part of the fingerprint.

    Args:
        generator: takes the weights.
        version: of the weights.
        config: of the model.
        named_tensors: each holds good only until the next one is asked for.

    Returns:
        The fingerprint of what was sent.
    """
    seen: list[tuple[str, tuple[int, ...], bytes]] = []

    def noted() -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in named_tensors:
            seen.append((name, tuple(tensor.shape), first_values(tensor)))
            yield name, tensor

    remaining = noted()
    generator.update_weights(version, remaining)
    for _ in remaining:
        pass
    return model_fingerprint(config_json(config), seen)


def first_values(tensor: torch.Tensor) -> bytes:
    """The first values of a parameter, row by row, as little-endian float32."""
    values = tensor.detach().flatten()[:FINGERPRINT_VALUES]
    return values.to("cpu", torch.float32).numpy().astype("<f4").tobytes()


def config_json(config: PretrainedConfig) -> str:
    """A model's config, less what is volatile, as JSON with sorted keys."""
    values = {key: value for key, value in config.to_dict().items() if key not in VOLATILE_CONFIG_KEYS}
    return json.dumps(values, sort_keys=True)
