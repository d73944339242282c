"""A pool of killable processes that compare formulas.

The pool starts with the first formula and serves any number of threads. A comparison that outlives its deadline is
ended by killing its process, which works whatever the process is doing. The deadline counts processor time, so
that a busy machine does not change a judgement. A forked copy of this process gets a pool of its own; nothing
outlives this process.
"""

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass

from envgym.errors import InfrastructureError
from envgym.rewards.grading.protocol import MAX_PACKET, Judgement, Readings, read_reply, request_packet

DEADLINE_S = 5.0
PATIENCE = 12.0
"""The deadline in time on the clock, as a multiple of that in processor time."""
MAX_WORKERS = 4
START_S = 120.0
"""How long the first start may take. It loads sympy: 2 s on a free core, more where many start at once."""
GRADES_PER_WORKER = 500
"""A process is replaced after so many grades, as sympy's caches grow."""


class GradingTimeoutError(Exception):
    """The comparison did not end before its deadline."""


class WorkerLostError(Exception):
    """The process died while it compared, of something else than its deadline."""


class GradingPool:
    """Compares formulas in processes of its own.

    Args:
        deadline_s: seconds of processor time that one comparison may take.
        workers: most comparisons at once; by default one a core, at most four.
    """

    def __init__(self, deadline_s: float = DEADLINE_S, workers: int | None = None) -> None:
        self.deadline_s = deadline_s
        self._limit = workers or min(MAX_WORKERS, os.cpu_count() or 1)
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self._busy = 0
        self._nursery_lock = threading.Lock()
        self._nursery: _Nursery | None = None
        self._closed = False

    def ask(self, readings: Readings) -> Judgement:
        """Have one request judged, see `envgym.rewards.grading.protocol`.

        Raises:
            GradingTimeoutError: if the deadline passed.
            WorkerLostError: if two processes in a row died of the request.
            InfrastructureError: if no process can be started.
        """
        try:
            return self._ask_once(readings)
        except WorkerLostError:
            # It may have died idle, or of a neighbour's hunger for memory: one more try tells.
            return self._ask_once(readings)

    def _ask_once(self, readings: Readings) -> Judgement:
        worker = self._take()
        try:
            judgement = worker.exchange(readings, self.deadline_s)
            if judgement == "error" or worker.grades >= GRADES_PER_WORKER:
                worker.end()
            else:
                self._keep(worker)
            return judgement
        finally:
            self._release()

    def _take(self) -> "_Worker":
        """An idle process, or a new one if fewer than the limit are busy; else wait for one."""
        with self._changed:
            while self._busy >= self._limit:
                self._changed.wait()
            self._busy += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._running_nursery().fork()
        except BaseException:
            self._release()
            raise

    def _keep(self, worker: "_Worker") -> None:
        with self._changed:
            self._idle.append(worker)

    def _release(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify()

    def _running_nursery(self) -> "_Nursery":
        with self._nursery_lock:
            if self._closed:
                raise InfrastructureError("the grading pool is closed")
            if self._nursery is not None and not self._nursery.is_alive():
                self._nursery.close()
                self._nursery = None
            self._nursery = self._nursery or _Nursery()
            return self._nursery

    def close(self) -> None:
        """End every process. What another thread has compared at this moment ends with an error there."""
        with self._nursery_lock:
            self._closed = True
            if self._nursery is not None:
                self._nursery.close()
        self._drop_idle()

    def forget(self) -> None:
        """In a forked copy of the owner: let go of the processes, which stay the owner's."""
        self._closed = True
        if self._nursery is not None:
            self._nursery.control.close()
        self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().channel.close()


@dataclass(slots=True)
class _Worker:
    """A grading process, from the side of its owner."""

    process_id: int
    channel: socket.socket
    nursery: "_Nursery"
    grades: int = 0

    def exchange(self, readings: Readings, deadline_s: float) -> Judgement:
        """Send a request and wait for the reply. Without one, the process is ended."""
        try:
            self.channel.send(request_packet(readings, deadline_s))
            in_time = _readable_within(self.channel, PATIENCE * deadline_s)
            reply = self.channel.recv(MAX_PACKET) if in_time else b""
        except OSError:
            in_time, reply = True, b""
        if reply:
            self.grades += 1
            return read_reply(reply)
        ended_by = -(self.end() or 0)
        if ended_by == signal.SIGPROF or not in_time:
            raise GradingTimeoutError(f"no judgement within {deadline_s} s of processor time")
        raise WorkerLostError(f"the grading process was ended by signal {ended_by}")

    def end(self) -> int | None:
        """End the process and tell how it had ended, see `_Nursery.kill`."""
        self.channel.close()
        return self.nursery.kill(self.process_id)


class _Nursery:
    """The process that forks the grading processes, from the side of its owner."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._turn = threading.Lock()
        with theirs:
            try:
                self._process = _start(theirs.fileno())
            except InfrastructureError:
                self.control.close()
                raise
        if not _readable_within(self.control, START_S) or self.control.recv(64) != b"ready":
            self.close()
            raise InfrastructureError(
                f"the grading process did not start (exit code {self._process.returncode}); "
                "`python -m envgym.rewards.grading.nursery 0` shows why"
            )

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self) -> _Worker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._turn:
            try:
                socket.send_fds(self.control, [b"fork"], [theirs.fileno()])
                answer = self.control.recv(64)
            except OSError:
                answer = b""
        if not answer:
            ours.close()
            raise InfrastructureError("the process that starts the grading processes is gone")
        return _Worker(process_id=int(answer), channel=ours, nursery=self)

    def kill(self, process_id: int) -> int | None:
        """Kill and reap; the result is an exit code, or minus a signal, which may have come before.

        None if the nursery is gone. Its children then end with their sockets or with their processor time.
        """
        with self._turn:
            try:
                self.control.send(f"kill {process_id}".encode())
                answer = self.control.recv(64)
            except OSError:
                return None
        return int(answer) if answer else None

    def close(self) -> None:
        self.control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start(descriptor: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "envgym.rewards.grading.nursery", str(descriptor)],
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is the owner's to handle
        )
    except OSError as error:
        raise InfrastructureError(f"the grading process cannot be started: {error}") from error


def _readable_within(channel: socket.socket, seconds: float) -> bool:
    """Wait for a packet, or for the other end to close. Unlike ``select``, ``poll`` takes any descriptor."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _environment() -> dict[str, str]:
    """The owner's environment, its import path, one thread, and one order of hashes, so that results repeat."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}


_shared: GradingPool | None = None
_shared_lock = threading.Lock()
_inherited: list[GradingPool] = []


def shared_pool() -> GradingPool:
    """The pool of this process. It is made at the first use."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = GradingPool()
        return _shared


def configure_grading(deadline_s: float = DEADLINE_S, workers: int | None = None) -> None:
    """Replace the pool of this process by one with another deadline or number of processes.

    Args:
        deadline_s: seconds of processor time that one comparison may take.
        workers: most comparisons at once; by default one a core, at most four.
    """
    global _shared
    with _shared_lock:
        if _shared is not None:
            _shared.close()
        _shared = GradingPool(deadline_s, workers)


def _close_shared() -> None:
    if _shared is not None:
        _shared.close()


def _start_afresh() -> None:
    """In a forked copy: a lock may have been held by a thread that the copy does not have."""
    global _shared, _shared_lock
    _shared_lock = threading.Lock()
    if _shared is not None:
        _shared.forget()
        _inherited.append(_shared)  # kept, as dropping it would have Popen look for a child that is not ours
        _shared = None


atexit.register(_close_shared)
os.register_at_fork(after_in_child=_start_afresh)
