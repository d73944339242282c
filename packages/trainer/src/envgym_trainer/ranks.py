"""Several processes that train one policy: who they are, what they tell each other, and where one waits."""

import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from envgym_generator.types import SetupError

Value = TypeVar("Value")


class Ranks:
    """The processes of a run, seen from one of them. Everything here is called on all ranks, in the same order."""

    def __init__(self, rank: int = 0, size: int = 1, timeout_s: float = 1800.0) -> None:
        """Describe a process group that was joined, or by default a process that is alone.

        Args:
            rank: of this process, from 0.
            size: number of processes.
            timeout_s: how long this one waits at one place before it says where, and ends.
        """
        self.rank = rank
        self.size = size
        self._watchdog = Watchdog(rank, timeout_s) if size > 1 else None

    def wait_at_most(self, timeout_s: float) -> None:
        """Set how long this rank waits at one place."""
        if self._watchdog is not None:
            self._watchdog.timeout_s = timeout_s

    @property
    def is_first(self) -> bool:
        """Whether this process writes the run's files and says what happens."""
        return self.rank == 0

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Name the place inside, where this rank may wait for the others."""
        if self._watchdog is None:
            yield
            return
        with self._watchdog.watching(place):
            yield

    def gather(self, value: Value, place: str) -> list[Value]:
        """What each rank has, in the order of ranks, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self.at(place):
            torch.distributed.all_gather_object(values, value)
        return values

    def any(self, flag: bool, place: str) -> bool:
        """Whether some rank says so."""
        return any(self.gather(flag, place))

    def most(self, count: int, place: str) -> int:
        """The largest count of all ranks."""
        return max(self.gather(count, place))

    def first_before_others(self, do: Callable[[], Value], place: str) -> Value:
        """Call a function on the first rank, then on the others: what it makes and checks is then there.

        Raises:
            SystemExit: on the others, where the first rank, which says why, was stopped by its ``SetupError``.
        """
        if not self.is_first:
            if self.any(False, place):
                raise SystemExit(2)
            return do()
        try:
            result = do()
        except SetupError:
            self.any(True, place)
            raise
        self.any(False, place)
        return result


class Watchdog:
    """Ends a process that waits too long at one place; a thread, since the process itself is stuck in a call."""

    def __init__(self, rank: int, timeout_s: float) -> None:
        """Start watching."""
        self._rank = rank
        self.timeout_s = timeout_s
        self._waiting: tuple[str, float] | None = None
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    @contextmanager
    def watching(self, place: str) -> Iterator[None]:
        """Count the time inside as waiting."""
        self._waiting = (place, time.monotonic())
        try:
            yield
        finally:
            self._waiting = None

    def _watch(self) -> None:
        while True:
            time.sleep(min(1.0, self.timeout_s / 4))
            waiting = self._waiting
            if waiting is not None and time.monotonic() - waiting[1] > self.timeout_s:
                print(
                    f"trainer-train: rank {self._rank} has waited {self.timeout_s:.0f} s for the others at: "
                    f"{waiting[0]}; see rank_timeout_s",
                    file=sys.stderr,
                    flush=True,
                )
                os._exit(1)  # the main thread cannot be woken


def share_of_groups(groups: Sequence[Hashable], rank: int, size: int) -> list[int]:
    """Which items are a rank's: those of its own whole groups, which are consecutive ones of about equal number.

    >>> [share_of_groups("aabbbc", rank, 2) for rank in range(2)]
    [[0, 1, 2, 3, 4], [5]]
    """
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return [index for index, group in enumerate(groups) if numbers[group] * size // max(1, len(numbers)) == rank]


ALONE = Ranks()
"""One process, which waits for nobody."""
