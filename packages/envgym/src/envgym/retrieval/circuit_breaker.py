"""A circuit breaker: after several failures in a row, calls are refused at once for a while, then tried again."""

import time
from collections.abc import Callable


class CircuitBreaker:
    """Closed (calls pass) until ``failures`` calls in a row have failed, then open for ``cooldown_s`` seconds.

    After that one call passes as a probe: if it succeeds the breaker closes, and until it does one more probe
    passes each ``cooldown_s``. Not thread-safe; it is used from one event loop.
    """

    def __init__(
        self, *, failures: int = 5, cooldown_s: float = 20.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``clock`` gives seconds; tests pass their own."""
        self._limit = failures
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._failed_in_a_row = 0
        self._opened_at = 0.0

    def admit(self) -> bool:
        """Whether a call may be made now."""
        if self._failed_in_a_row < self._limit:
            return True
        if self.wait_s > 0:
            return False
        self._opened_at = self._clock()  # this call is the probe; the next one waits again
        return True

    @property
    def wait_s(self) -> float:
        """Seconds until an open breaker lets a probe pass."""
        return max(0.0, self._opened_at + self._cooldown_s - self._clock())

    def record(self, *, ok: bool) -> None:
        """Note how an admitted call ended."""
        self._failed_in_a_row = 0 if ok else self._failed_in_a_row + 1
        if self._failed_in_a_row >= self._limit:
            self._opened_at = self._clock()
