"""The same command, the same numbers."""

import os
import random

import numpy as np
import torch


def seed_everything(seed: int, *, deterministic: bool) -> None:
    """Seed every source of random numbers, and forbid sums in a varying order where ``deterministic``.

    Call it before anything touches a GPU.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # asked for by cuBLAS, read at its start
        # Filling fresh memory costs time, and nobody reads it.
        torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue]
        torch.use_deterministic_algorithms(True, warn_only=True)
