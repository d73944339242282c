import pytest

from envgym_trainer.schedule import SCHEDULES, learning_rate


def rates(schedule, warmup_steps=0, total_steps=4):
    return [
        learning_rate(1.0, schedule, step, warmup_steps=warmup_steps, total_steps=total_steps)
        for step in range(1, total_steps + 1)
    ]


def test_a_constant_rate_stays():
    assert rates("constant") == [1.0] * 4


def test_a_cosine_falls_from_the_peak_towards_zero():
    # cos of 0, π/4, π/2, 3π/4.
    assert rates("cosine") == pytest.approx([1.0, 0.853553, 0.5, 0.146447], abs=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_warms_up_linearly_to_the_peak(schedule):
    assert rates(schedule, warmup_steps=2, total_steps=6)[:3] == [0.5, 1.0, 1.0]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_that_is_all_warm_up_ends_at_the_peak(schedule):
    assert rates(schedule, warmup_steps=4)[-1] == 1.0
