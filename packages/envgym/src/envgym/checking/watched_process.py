"""A Python process that can be killed with all of its children, and tells what it is doing while it does it.

It runs one function of a module with arguments that pickle, in an interpreter of its own, with another hash seed
and nothing imported yet. What the function sends arrives here; whoever reads it kills the process where it stays
silent for too long.
"""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from types import TracebackType
from typing import Any, cast

Send = Callable[[object], None]

_RETURNED = "the function has returned"
_GONE = "the process is gone"


class ProcessDied(Exception):
    """The process is gone. The text holds its exit code and the end of what it wrote to standard error."""


class Silence(Exception):
    """The process said nothing for longer than it may."""


class WatchedProcess:
    """One process, from its start to its end. Use it in a ``with`` statement."""

    def __init__(
        self,
        function: Callable[..., None],
        *arguments: object,
        environment: Mapping[str, str],
        own_group: bool = True,
    ) -> None:
        """Start the process.

        Args:
            function: a function of a module. It is called with a ``Send`` and ``arguments``, which must pickle.
            arguments: the other arguments.
            environment: environment variables on top of this process's.
            own_group: False leaves it in this process's group, so that whoever kills this one kills both.
        """
        self._connection, theirs = Pipe(duplex=True)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by kill)
        self._own_group = own_group
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=own_group,
        )
        theirs.close()
        self._life = os.pidfd_open(self._process.pid)
        self._connection.send_bytes(pickle.dumps((function, arguments)))

    def receive(self, timeout_s: float | None) -> object:
        """The next thing that the function sends.

        Raises:
            Silence: if nothing comes within ``timeout_s``.
            ProcessDied: if the process is gone before the function returned.
            EOFError: once the function has returned.
        """
        # A child that the process has forked may keep its end of the connection open, so its life is watched too.
        ready = wait([self._connection, self._life], timeout_s)
        if not ready:
            raise Silence
        try:
            event = self._connection.recv() if self._connection.poll() else _GONE
        except (EOFError, ConnectionResetError):
            event = _GONE
        if event == _GONE:
            raise ProcessDied(self._last_words())
        if event == _RETURNED:
            raise EOFError
        return event

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"the process ended with code {code}" + (f": {lines[-1]}" if lines else "")

    def kill(self) -> None:
        """End the process, and everything that it started."""
        if self._own_group:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()
        os.close(self._life)
        self._connection.close()
        self._errors.close()

    def __enter__(self) -> "WatchedProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def main() -> None:
    """Run the function that comes in through the file descriptor named on the command line."""
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    function, arguments = cast(
        "tuple[Callable[..., None], tuple[object, ...]]", pickle.loads(connection.recv_bytes())
    )
    function(connection.send, *arguments)
    connection.send(_RETURNED)
