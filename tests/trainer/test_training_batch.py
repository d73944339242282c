import pytest

from envgym_trainer.batch import Row, collate, make_rows, segment_row, split_by_length


def row(length, *trained):
    return Row(ids=tuple(range(100, 100 + length)), trained=trained, rollout=0, segment=0)


def test_rows_hold_only_tokens_with_a_true_mask(make_segment, make_rollout, make_output):
    segment = make_segment([True, False, True], prompt=(7, 8), ids=(20, 21, 22))
    (found,) = make_rows(make_output(make_rollout(segment)))
    assert found.ids == (7, 8, 20, 21, 22)
    assert found.trained == (2, 4)


def test_failed_excluded_and_empty_rollouts_give_no_rows(make_segment, make_rollout, make_output):
    output = make_output(
        make_rollout(make_segment([True]), status="failed"),
        make_rollout(make_segment([True]), excluded_by="overlong"),
        make_rollout(make_segment([False])),
        make_rollout(status="prompt_too_long"),
        make_rollout(make_segment([True]), make_segment([True])),
    )
    assert [(found.rollout, found.segment) for found in make_rows(output)] == [(4, 0), (4, 1)]


def test_a_segment_without_prompt_is_refused(make_segment):
    with pytest.raises(ValueError, match="segment 2 of rollout 5"):
        segment_row(make_segment([True], prompt=()), rollout=5, number=2)


def test_trained_tokens_are_predicted_from_the_position_before_them():
    tokens = collate([row(3, 1, 2), row(2, 1)])
    assert tokens.input_ids.tolist() == [[100, 101, 102], [100, 101, 0]]
    assert list(zip(tokens.rows.tolist(), tokens.columns.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 0)]
    assert tokens.targets.tolist() == [101, 102, 101]
    assert (tokens.num_ids, tokens.num_computed) == (5, 6)


def test_splitting_keeps_every_row_once_and_every_group_within_bounds():
    lengths = [5, 9, 2, 7, 7, 3, 12]
    groups = split_by_length(lengths, max_tokens=14)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    assert all(len(group) * max(lengths[index] for index in group) <= 14 for group in groups)


def test_a_row_over_the_bound_goes_alone():
    assert split_by_length([30, 2, 40], max_tokens=10) == [[1], [0], [2]]
