"""Ctrl-C that never leaves half a step behind."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class Interruption:
    """Between entering and leaving, the first Ctrl-C is noted, and raised only where nothing is lost by it.

    A second one is raised at once, wherever the run is.

    >>> with Interruption() as interruption:
    ...     with interruption.raised_here():
    ...         pass  # playing rollouts, say: they can be thrown away
    ...     interruption.requested
    False
    """

    def __init__(self) -> None:
        self.requested = False
        """Whether Ctrl-C was pressed."""
        self.insisted = False
        """Whether it was pressed again."""

    def __enter__(self) -> "Interruption":
        self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._previous)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.insisted = self.requested
        self.requested = True
        if self.insisted:
            raise KeyboardInterrupt

    @contextmanager
    def raised_here(self) -> Iterator[None]:
        """Inside, Ctrl-C raises ``KeyboardInterrupt``; so does one that was noted before.

        Python's own handler is in place there, for which asyncio looks: it then cancels its tasks in good order.

        Raises:
            KeyboardInterrupt: see above.
        """
        if self.requested:
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        except KeyboardInterrupt:
            self.requested = True
            raise
        finally:
            signal.signal(signal.SIGINT, self._note)
