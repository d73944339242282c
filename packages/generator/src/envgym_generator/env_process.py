"""Envs in worker processes that are killed when a call outlives its deadline.

A worker plays many episodes, one call at a time. When one call hangs, its worker is killed and that rollout fails;
the other episodes of the worker are brought back on a fresh one by playing their recorded actions again, which an
env answers as it did before (rule E8 of the design: same seed and actions, same episode).
"""

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from envgym import TextEnv, make_env
from envgym_generator.env_host import (
    Episode,
    Opening,
    RolloutFailure,
    Step,
    close_quietly,
    describe_failure,
)

START_DEADLINE_S = 60.0
"""Starting Python, importing the env and its first load of data."""


class ProcessHost:
    """Serves seats in a few worker processes, each started when it is first needed."""

    def __init__(self, name: str, arguments: dict[str, Any], deadline_s: float, num_workers: int) -> None:
        """Serve the env ``name`` with these arguments; ``deadline_s`` bounds each call."""
        self._name = name
        self._arguments = arguments
        self.deadline_s = deadline_s
        self._workers: list[_Worker | None] = [None] * num_workers
        self._seats_opened = 0
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="env-worker")

    def open(self) -> "_ProcessSeat":
        """A seat on the next worker in turn."""
        seat = _ProcessSeat(self, number=self._seats_opened, slot=self._seats_opened % len(self._workers))
        self._seats_opened += 1
        return seat

    def worker(self, slot: int) -> "_Worker":
        """The living worker of a slot."""
        worker = self._workers[slot]
        if worker is None or worker.dead:
            worker = self._workers[slot] = _Worker(self._name, self._arguments)
        return worker

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Wait for a worker without holding up the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def close(self) -> None:
        """Kill the workers."""
        for worker in self._workers:
            if worker is not None:
                worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)


class _ProcessSeat:
    def __init__(self, host: ProcessHost, number: int, slot: int) -> None:
        self._host = host
        self._number = number
        self._slot = slot
        self._history: list[tuple[Any, ...]] = []
        self._worker: _Worker | None = None

    async def reset(self, split: str, task_index: int, seed: int) -> Opening:
        self._history = []
        return await self._play("reset", split, task_index, seed)

    async def step(self, action: str) -> Step:
        return await self._play("step", action)

    async def demonstrate(self) -> str:
        return await self._play("demonstrate")

    async def _play(self, *call: Any) -> Any:
        worker = self._host.worker(self._slot)
        async with worker.lock:
            if not worker.dead:  # another seat's call may have had it killed while this one waited
                await self._move_to(worker)
                answer = await self._call(worker, call)
                self._history.append(call)
                return answer
        return await self._play(*call)

    async def _move_to(self, worker: "_Worker") -> None:
        """Bring the episode up to where it was, if this worker does not have it yet."""
        if worker is not self._worker:
            for earlier in self._history:
                await self._call(worker, earlier)
            self._worker = worker

    async def _call(self, worker: "_Worker", call: tuple[Any, ...]) -> Any:
        deadline = self._host.deadline_s
        return await self._host.in_thread(lambda: worker.call((self._number, *call), deadline))

    async def close(self) -> None:
        worker = self._worker
        if worker is not None and not worker.dead:
            async with worker.lock:
                try:
                    await self._call(worker, ("close",))
                except RolloutFailure as failure:
                    print(failure.report)


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        # Not forked: a copy of a process that runs threads and holds a model is neither safe nor light.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, name, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self.lock = asyncio.Lock()
        self.dead = False
        self._started = False

    def call(self, message: tuple[Any, ...], deadline_s: float) -> Any:
        """Send a message and wait for its answer.

        Raises:
            RolloutFailure: if the env raised, the deadline passed or the process died. The last two kill the worker.
        """
        if self.dead:
            raise RolloutFailure("worker_died", "the worker process was killed while this call waited for it")
        try:
            if not self._started:
                self._await(START_DEADLINE_S)
                self._started = True
            self._pipe.send(message)
            kind, value = self._await(deadline_s)
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self.kill()
            raise RolloutFailure(
                "worker_died", f"the worker process ended with code {self._process.exitcode} during {message[1]}"
            ) from error
        if kind != "ok":
            raise RolloutFailure(kind, value)
        return value

    def _await(self, seconds: float) -> Any:
        if not self._pipe.poll(seconds):
            self.kill()
            raise RolloutFailure(
                "timeout", f"the call did not end within its deadline of {seconds} s and was killed"
            )
        return self._pipe.recv()

    def kill(self) -> None:
        """End the process at once."""
        self.dead = True
        self._process.kill()
        self._process.join()
        self._pipe.close()


def serve(pipe: Connection, name: str, arguments: dict[str, Any]) -> None:
    """The worker's side: answer calls until the pipe closes."""
    episodes: dict[int, Episode] = {}
    pipe.send("ready")
    while True:
        try:
            number, method, *values = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(("ok", _answer(episodes, number, method, values, lambda: make_env(name, **arguments))))
        except Exception as error:
            failure = describe_failure(error)
            pipe.send((failure.kind, failure.report))


def _answer(
    episodes: dict[int, Episode], number: int, method: str, values: list[Any], build: Callable[[], TextEnv]
) -> Any:
    if method == "reset":
        episodes[number] = Episode(build())
        return episodes[number].reset(*values)
    if method == "step":
        return episodes[number].step(*values)
    if method == "demonstrate":
        return episodes[number].demonstrate()
    close_quietly(episodes.pop(number))
    return None
