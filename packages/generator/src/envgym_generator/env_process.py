"""Envs in worker processes that are killed when a call outlives its deadline.

A worker plays many episodes, one call at a time. When one call hangs, its worker is killed and that rollout fails;
the other episodes of the worker are brought back on a fresh one by playing their recorded calls again, which an
env answers as it did before: the same seed and the same actions give the same episode.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from envgym_generator.env_host import Opening, RolloutFailure, Seat, Step

START_DEADLINE_S = 300.0
"""Starting Python, importing the env and loading its data."""


class ProcessHost:
    """Serves seats in a few worker processes, each started when it is first needed."""

    def __init__(self, name: str, arguments: Mapping[str, Any], deadline_s: float, num_workers: int) -> None:
        """Serve the env ``name`` with these arguments; ``deadline_s`` bounds each call."""
        self._name = name
        self._arguments = dict(arguments)
        self._deadline_s = deadline_s
        self._workers: list[_Worker | None] = [None] * num_workers
        self._seats_opened = 0
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="env-worker")

    def open(self) -> Seat:
        """A seat on the next worker in turn."""
        seat = _ProcessSeat(self, number=self._seats_opened, slot=self._seats_opened % len(self._workers))
        self._seats_opened += 1
        return seat

    def worker(self, slot: int) -> "_Worker":
        """The worker of a slot, a fresh one where the last was killed."""
        worker = self._workers[slot]
        if worker is None or worker.dead:
            worker = self._workers[slot] = _Worker(self._name, self._arguments)
        return worker

    async def call(self, worker: "_Worker", *message: Any) -> Any:
        """Wait for a worker's answer without holding up the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, worker.call, message, self._deadline_s)

    def close(self) -> None:
        """Kill the workers."""
        for worker in self._workers:
            if worker is not None:
                worker.kill()


class _ProcessSeat:
    """An episode on some worker."""

    def __init__(self, host: ProcessHost, number: int, slot: int) -> None:
        self._host = host
        self._number = number
        self._slot = slot
        self._calls: list[tuple[Any, ...]] = []
        """What was answered so far: played again where the worker is another one."""
        self._worker: _Worker | None = None

    async def reset(self, split: str, task_index: int, seed: int) -> Opening:
        return await self._play("reset", split, task_index, seed)

    async def step(self, action: str) -> Step:
        return await self._play("step", action)

    async def demonstrate(self) -> str:
        return await self._play("demonstrate")

    async def _play(self, *call: Any) -> Any:
        while True:
            worker = self._host.worker(self._slot)
            async with worker.lock:
                if worker.dead:  # killed while this seat waited: the call of another one hung
                    continue
                if worker is not self._worker:
                    for earlier in self._calls:
                        await self._host.call(worker, self._number, *earlier)
                    self._worker = worker
                answer = await self._host.call(worker, self._number, *call)
            self._calls.append(call)
            return answer

    async def close(self) -> None:
        worker = self._worker
        if worker is None:
            return
        async with worker.lock:
            if not worker.dead:
                try:
                    await self._host.call(worker, self._number, "close")
                except RolloutFailure as failure:
                    print(f"an env could not be closed: {failure.report}", file=sys.stderr)


class _Worker:
    """One process and the socket to it."""

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        # Not forked: a copy of a process that runs threads and holds a model is neither safe nor light.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "envgym_generator.env_worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path)},
        )
        theirs.close()
        self._pipe = Connection(ours.detach())
        self._pipe.send((name, dict(arguments)))
        self._started = False
        self.lock = asyncio.Lock()
        self.dead = False

    def call(self, message: tuple[Any, ...], deadline_s: float) -> Any:
        """Send a message and wait for its answer.

        Raises:
            RolloutFailure: if the env raised, the deadline passed or the process died. Only the first
                leaves the worker alive.
        """
        try:
            if not self._started:
                self._answer(START_DEADLINE_S, "start")
                self._started = True
            self._pipe.send(message)
            return self._answer(deadline_s, message[1])
        except (EOFError, OSError) as error:
            self.kill()
            report = f"the worker process ended with code {self._process.returncode} during {message[1]}"
            raise RolloutFailure("worker_died", report) from error

    def _answer(self, seconds: float, method: str) -> Any:
        if not self._pipe.poll(seconds):
            self.kill()
            report = f"{method} did not end within its deadline of {seconds} s, and its process was killed"
            raise RolloutFailure("timeout", report)
        kind, value = self._pipe.recv()
        if kind != "ok":
            raise RolloutFailure(kind, value)
        return value

    def kill(self) -> None:
        """End the process at once. May be called twice."""
        self.dead = True
        self._process.kill()
        self._process.wait()
        self._pipe.close()
