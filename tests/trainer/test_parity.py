import math

import pytest

from envgym_trainer.batch import make_rows
from envgym_trainer.parity import compare, sampling_logprobs

TWO_TURNS = {"mask": [True, True, False, True, True], "logprobs": [-1.0, -2.0, 0.0, -3.0, -4.0]}


def test_equal_logprobs_have_no_divergent_token(make_segment, make_rollout, make_output):
    output = make_output(make_rollout(make_segment(**TWO_TURNS)))
    parity = compare(output, make_rows(output), [[-1.0, -2.0, -3.0, -4.0]], threshold=1e-4)
    assert (parity.max_abs_diff, parity.mean_abs_diff, parity.num_tokens) == (0.0, 0.0, 4)
    assert parity.first_divergent is None


def test_the_first_divergent_token_is_named_with_turn_and_neighbours(make_segment, make_rollout, make_output):
    output = make_output(
        make_rollout(make_segment([True], logprobs=[-1.0])), make_rollout(make_segment(**TWO_TURNS))
    )
    rows = make_rows(output)
    parity = compare(output, rows[::-1], [[-1.0, -2.0, -3.5, -9.0], [-1.0]], threshold=0.1)
    assert parity.max_abs_diff == pytest.approx(5.0)
    assert parity.mean_abs_diff == pytest.approx(5.5 / 5)
    assert parity.first_divergent is not None
    for part in (
        "rollout 1 (task task-0)",
        "turn 1",
        "token 0 of 2",
        "id 6",
        "-3.5",
        "neighbours: 3 (-1.0",
        "7 (-9.0",
    ):
        assert part in parity.first_divergent


def test_a_difference_at_the_threshold_is_accepted(make_segment, make_rollout, make_output):
    output = make_output(make_rollout(make_segment([True], logprobs=[-1.0])))
    assert compare(output, make_rows(output), [[-1.5]], threshold=0.5).first_divergent is None


def test_nan_is_divergent(make_segment, make_rollout, make_output):
    output = make_output(make_rollout(make_segment([True], logprobs=[-1.0])))
    assert compare(output, make_rows(output), [[math.nan]], threshold=1e9).first_divergent is not None


def test_sampling_logprobs_are_those_of_the_trained_tokens(make_segment, make_rollout, make_output):
    segment = make_segment(**TWO_TURNS)
    (row,) = make_rows(make_output(make_rollout(segment)))
    assert sampling_logprobs(segment, row) == (-1.0, -2.0, -3.0, -4.0)
    assert sampling_logprobs(make_segment([True]), row) is None
