"""A warm pool of query workers, shared by everything in a process and usable from any thread.

A worker that outlives a deadline is killed; the next query finds another one, or starts one in some 20 ms.
"""

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
import time

from envgym.errors import InfrastructureError
from envgym.once import Once
from envgym.sql.table import Failure, Query, Table
from envgym.sql.wire import Broken, decode_answer, encode_query

LONGEST_SQL = 1_000_000
PIPE_BYTES = 2**16  # what a pipe holds; asking for more would only make the buffer dear
EXPLORED_QUERIES = 2048  # results kept, of some kilobytes each
_KILL_AFTER_S = 0.6  # behind the deadline; the worker's own alarm comes first
_WAIT_FOR_WORKER_S = 60.0
_WAIT_FOR_START_S = 30.0  # 20 ms on a machine that is not busy with something else
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A bare ``envgym`` in ``sys.modules`` lets the worker import its few modules without the package's __init__, which
# would load Gymnasium and numpy: 20 ms to start instead of half a second.
_PROGRAM = """
import sys, types
package = types.ModuleType("envgym")
package.__path__ = [sys.argv[1]]
sys.modules["envgym"] = package
from envgym.sql.worker import main
main()
"""


class WorkerDied(Exception):
    """The process ended before it answered."""

    def __init__(self, returncode: int | None) -> None:
        super().__init__(f"the SQL worker ended with code {returncode}")
        self.returncode = returncode


class Worker:
    """One process, asked by one thread at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, _PACKAGE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd="/",
        )
        assert self.process.stdin is not None and self.process.stdout is not None  # both were asked for
        self._input, self._output = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._input, False)
        self._writable, self._readable = select.poll(), select.poll()
        self._writable.register(self._input, select.POLLOUT)
        self._readable.register(self._output, select.POLLIN)
        self._ready = False

    def await_start(self) -> None:
        """Wait until the process has started, so that its start does not count towards a query's deadline.

        Raises:
            InfrastructureError: if it does not start.
        """
        if self._ready:
            return
        try:
            self._receive(time.monotonic() + _WAIT_FOR_START_S)
        except (TimeoutError, WorkerDied) as error:
            raise InfrastructureError(f"a SQL worker does not start: {error}") from error
        self._ready = True

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send a line and return the line that answers it.

        Raises:
            TimeoutError: if no answer came in time; the worker is then of no further use.
            WorkerDied: if the process ended.
        """
        deadline = time.monotonic() + seconds
        try:
            self._send(memoryview(line), deadline)
            return self._receive(deadline)
        except BrokenPipeError as error:
            raise WorkerDied(self.process.wait()) from error

    def _send(self, line: memoryview, deadline: float) -> None:
        while line:
            try:
                line = line[os.write(self._input, line) :]
            except BlockingIOError:  # the pipe is full; nearly every line fits at once
                _await(self._writable, deadline)

    def _receive(self, deadline: float) -> bytes:
        chunks: list[bytes] = []
        while not chunks or not chunks[-1].endswith(b"\n"):
            _await(self._readable, deadline)
            chunks.append(os.read(self._output, PIPE_BYTES))
            if not chunks[-1]:
                raise WorkerDied(self.process.wait())
        return b"".join(chunks)

    def kill(self) -> None:
        """End the process and wait until it is gone."""
        self.process.kill()
        self.process.wait()
        self.release()

    def release(self) -> None:
        """Close this side of the pipes. A worker that is still there ends by itself once all copies are closed."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _await(pipe: select.poll, deadline: float) -> None:
    if not pipe.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError("the SQL worker did not answer in time")


class WorkerPool:
    """At most ``size`` workers, started when first needed and kept."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._workers: set[Worker] = set()
        self._idle: list[Worker] = []
        self._changed = threading.Condition()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The workers that are there now."""
        return tuple(worker.process.pid for worker in self._workers)

    def run(self, query: Query) -> Table | Failure:
        """Run one query; the answer comes at the latest one second behind its deadline.

        Raises:
            InfrastructureError: if the database cannot be read, if the worker was ended by someone else, or if all
                workers stay busy.
        """
        if len(query.sql) > LONGEST_SQL:
            return Failure(kind="error", message=f"the statement is longer than {LONGEST_SQL} characters")
        line = encode_query(query)
        worker = self._take()
        usable = False
        try:
            worker.await_start()
            answer = decode_answer(worker.ask(line, query.seconds + _KILL_AFTER_S))
            usable = not (isinstance(answer, Failure) and answer.kind == "memory")
            if isinstance(answer, Broken):
                raise InfrastructureError(answer.reason)
            return answer
        except TimeoutError:
            return _TIMEOUT
        except WorkerDied as death:
            if death.returncode == -signal.SIGALRM:
                return _TIMEOUT
            raise InfrastructureError(f"{death} while it ran a query on {query.path}") from death
        finally:
            self._give_back(worker, usable)

    def _take(self) -> Worker:
        with self._changed:
            if not self._changed.wait_for(self._has_room, timeout=_WAIT_FOR_WORKER_S):
                raise InfrastructureError(f"all {self._size} SQL workers stayed busy for {_WAIT_FOR_WORKER_S:g} s")
            while self._idle:
                worker = self._idle.pop()
                if worker.process.poll() is None:
                    return worker
                self._discard(worker)  # it died while idle; nobody's query was lost
            return self._start()

    def _has_room(self) -> bool:
        return bool(self._idle) or len(self._workers) < self._size

    def _start(self) -> Worker:
        try:
            worker = Worker()
        except OSError as error:
            raise InfrastructureError(f"cannot start a SQL worker: {error}") from error
        self._workers.add(worker)
        return worker

    def _discard(self, worker: Worker) -> None:
        self._workers.discard(worker)
        worker.kill()

    def _give_back(self, worker: Worker, usable: bool) -> None:
        """Make room for the next query: with this worker, or by ending it."""
        with self._changed:
            if usable and worker in self._workers:
                self._idle.append(worker)
            else:
                self._discard(worker)
            self._changed.notify()

    def close(self) -> None:
        """End all workers, busy ones too; a later query starts new ones."""
        with self._changed:
            self._idle.clear()
            for worker in tuple(self._workers):
                self._discard(worker)

    def leave_behind(self) -> None:
        """In a forked child: let go of the parent's workers without ending them."""
        for worker in self._workers:
            worker.release()


_TIMEOUT = Failure(kind="timeout", message="the query took too long")
_shared: WorkerPool | None = None
_shared_lock = threading.Lock()


def run_query(query: Query) -> Table | Failure:
    """Run a query in this process's shared pool. See ``WorkerPool.run``."""
    return shared_pool().run(query)


def explore(query: Query) -> Table | Failure:
    """Run a query, or recall what it gave before: databases do not change, nor does the time that queries see.

    What ran out of time or memory is tried again.
    """
    return _explore_once(query)


def _is_lasting(answer: Table | Failure) -> bool:
    return isinstance(answer, Table) or answer.kind in ("error", "denied")


def shared_pool() -> WorkerPool:
    """The pool of this process, made at first use."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = WorkerPool(size=max(2, min(8, os.cpu_count() or 2)))
            atexit.register(_shared.close)
        return _shared


def _forget_shared_pool() -> None:
    """A forked child must not talk to its parent's workers: two would read from one pipe."""
    global _shared, _shared_lock
    _shared_lock = threading.Lock()
    if _shared is not None:
        _shared.leave_behind()
        _shared = None


os.register_at_fork(after_in_child=_forget_shared_pool)
_explore_once = Once(run_query, size=EXPLORED_QUERIES, keep=_is_lasting)
