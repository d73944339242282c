from envgym.retrieval.circuit_breaker import CircuitBreaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def make_open(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(failures=3, cooldown_s=10.0, clock=clock)
    for _ in range(3):
        assert breaker.admit()
        breaker.record(ok=False)
    return breaker


def test_refuses_calls_after_several_failures_in_a_row() -> None:
    breaker = make_open(Clock())
    assert not breaker.admit()
    assert breaker.wait_s == 10.0


def test_a_success_in_between_keeps_it_closed() -> None:
    breaker = CircuitBreaker(failures=3, clock=Clock())
    for ok in (False, False, True, False, False):
        assert breaker.admit()
        breaker.record(ok=ok)
    assert breaker.admit()


def test_lets_one_probe_pass_after_the_cooldown() -> None:
    clock = Clock()
    breaker = make_open(clock)
    clock.now += 10.0
    assert breaker.admit()
    assert not breaker.admit()


def test_a_good_probe_closes_it() -> None:
    clock = Clock()
    breaker = make_open(clock)
    clock.now += 10.0
    breaker.admit()
    breaker.record(ok=True)
    assert breaker.admit()
    assert breaker.admit()


def test_a_bad_probe_keeps_it_open_for_another_cooldown() -> None:
    clock = Clock()
    breaker = make_open(clock)
    clock.now += 10.0
    breaker.admit()
    breaker.record(ok=False)
    assert not breaker.admit()
    clock.now += 10.0
    assert breaker.admit()


def test_a_probe_that_never_came_back_does_not_block_the_next_one() -> None:
    clock = Clock()
    breaker = make_open(clock)
    clock.now += 10.0
    assert breaker.admit()
    clock.now += 10.0
    assert breaker.admit()
