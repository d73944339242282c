import pytest
from hypothesis import given
from hypothesis import strategies as st

from envgym import SetupError
from envgym.payment import BestAttempt


def pay_all(scores: list[float], max_turns: int, late_cost: float) -> list[float]:
    payment = BestAttempt(max_turns=max_turns, late_cost=late_cost)
    return [payment.pay(score, last=number == len(scores)) for number, score in enumerate(scores, start=1)]


def test_right_at_once_is_paid_in_full() -> None:
    assert pay_all([1.0], 5, 0.5) == [1.0]


def test_right_later_is_paid_less_and_what_was_paid_before_is_taken_off() -> None:
    # 1 * (1 - 0.5 * 2 / 5) = 0.8 at the third turn, of which 0.1 was paid at the first
    assert pay_all([0.1, 0.0, 1.0], 5, 0.5) == pytest.approx([0.1, 0.0, 0.7])


def test_a_worse_attempt_after_a_better_one_costs_nothing_and_earns_nothing() -> None:
    assert pay_all([0.6, 0.2], 2, 0.0) == [0.6, 0.0]


def test_a_score_below_zero_is_paid_at_the_end_only() -> None:
    assert pay_all([-1.0], 1, 0.5) == [-1.0]
    assert pay_all([-1.0, -0.5], 2, 0.5) == [0.0, -0.5]
    assert pay_all([-1.0, 0.0], 2, 0.5) == [0.0, 0.0]
    assert pay_all([-1.0, 1.0], 2, 0.5) == [0.0, 0.75]


@given(
    scores=st.lists(st.floats(-1, 1), min_size=1, max_size=8),
    spare=st.integers(0, 3),
    late_cost=st.floats(0, 1),
)
def test_no_sequence_earns_more_than_its_best_score_at_the_first_turn(
    scores: list[float], spare: int, late_cost: float
) -> None:
    paid = pay_all(scores, len(scores) + spare, late_cost)
    assert sum(paid) <= max(scores) + 1e-9
    assert sum(paid) >= min(scores) - 1e-9
    assert all(-1 <= reward <= 1 for reward in paid)


def test_late_cost_must_be_a_share() -> None:
    with pytest.raises(SetupError, match=r"late_cost is 1\.5"):
        BestAttempt(max_turns=2, late_cost=1.5)
