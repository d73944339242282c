import threading
import time

import pytest

from envgym.once import Once


def test_a_value_is_computed_once_also_by_many_threads_at_once():
    calls: list[int] = []

    def compute(key: int) -> int:
        calls.append(key)
        time.sleep(0.05)
        return key * 2

    once = Once(compute, size=10)
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(once(4))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [8] * 8 and calls == [4]


def test_an_exception_is_raised_and_not_kept():
    attempts: list[str] = []

    def compute(key: str) -> str:
        attempts.append(key)
        if len(attempts) == 1:
            raise ValueError("not yet")
        return key

    once = Once(compute, size=10)
    with pytest.raises(ValueError, match="not yet"):
        once("a")
    assert once("a") == "a" and len(attempts) == 2


def test_the_least_recently_used_value_is_dropped():
    calls: list[int] = []
    once = Once(lambda key: calls.append(key) or key, size=2)
    for key in (1, 2, 1, 3, 1, 2):
        once(key)
    assert calls == [1, 2, 3, 2]


def test_only_what_is_worth_keeping_is_kept():
    calls: list[int] = []
    once = Once(lambda key: calls.append(key) or key, size=9, keep=lambda value: value > 1)
    for key in (1, 1, 2, 2):
        assert once(key) == key
    assert calls == [1, 1, 2]
