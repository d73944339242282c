"""Starting the processes of a run on this machine, as torchrun does; and finding out that someone else did."""

import logging
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from envgym_generator.types import SetupError

Value = TypeVar("Value")

LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def was_launched() -> bool:
    """Whether torchrun, the DeepSpeed launcher or ``launch`` started this process as one of several."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def is_first_rank() -> bool:
    """Whether this process speaks for all: the one of several that is first, or one that is alone."""
    return os.environ.get("RANK", "0") == "0"


def own_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments without the one that the DeepSpeed launcher adds."""
    return [argument for argument in arguments if not argument.startswith("--local_rank=")]


def check_world_size(num_processes: int) -> int:
    """The number of processes that were launched.

    Raises:
        SetupError: if the config asks for another number.
    """
    size = int(os.environ["WORLD_SIZE"])
    if num_processes not in (1, size):
        raise SetupError(f"num_processes={num_processes}, and {size} were launched; leave num_processes out")
    return size


def launch(num_processes: int, arguments: Sequence[str]) -> None:
    """Run ``trainer-train`` in several processes, and wait for them.

    Raises:
        SystemExit: with the exit code of the process that failed first; it has said why.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // num_processes)))
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.5,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "envgym_trainer", *arguments)
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        raise SystemExit(code if code > 0 else 1) from error
    except SignalException as error:
        raise KeyboardInterrupt from error


def call_alone(function: Callable[..., Value], *arguments: Any) -> Value:
    """Call a function in a process that knows of no other ranks, and so may train something by itself."""
    removed = {name: os.environ.pop(name) for name in LAUNCHER_VARIABLES if name in os.environ}
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(function, *arguments).result()
    finally:
        os.environ.update(removed)
