"""Computing a value once per key, whoever asks and however many ask at the same time."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Once(Generic[_Key, _Value]):
    """A function whose values are kept, the most recently used ``size`` of them.

    Several threads that ask for one key at the same time share one computation. An exception reaches all of them
    and is not kept.

        >>> square = Once(lambda number: number * number, size=100)
        >>> square(3)
        9
    """

    def __init__(
        self, compute: Callable[[_Key], _Value], size: int, keep: Callable[[_Value], bool] = lambda _: True
    ) -> None:
        """Keep the values of ``compute`` for which ``keep`` is true."""
        self._compute = compute
        self._size = size
        self._keep = keep
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._futures: OrderedDict[_Key, Future[_Value]] = OrderedDict()

    def __call__(self, key: _Key) -> _Value:
        """The value of a key."""
        if self._process != os.getpid():
            self._forget()  # forked: what another thread was about to release or to finish stays as it is for ever
        with self._lock:
            known = self._futures.pop(key, None)
            future = self._futures[key] = known or Future[_Value]()
            if len(self._futures) > self._size:
                self._futures.popitem(last=False)
        return future.result() if known else self._fill(key, future)

    def _fill(self, key: _Key, future: "Future[_Value]") -> _Value:
        try:
            value = self._compute(key)
        except BaseException as error:  # whatever it is, those who wait for it must hear of it
            self._drop(key)
            future.set_exception(error)
            raise
        if not self._keep(value):
            self._drop(key)
        future.set_result(value)
        return value

    def _drop(self, key: _Key) -> None:
        with self._lock:
            self._futures.pop(key, None)
