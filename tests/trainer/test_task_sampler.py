from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envgym_trainer.sampler import env_at, eval_requests, task_at, train_requests


def requests_of(step, **changes):
    settings = {"seed": 1, "weights": {"a": 1.0}, "num_tasks": {"a": 10}, "tasks_per_step": 4, "group_size": 3}
    return train_requests(step, **(settings | changes))


def test_a_step_holds_whole_groups_in_order():
    requests = requests_of(1)
    assert [request.sample_index for request in requests] == [0, 1, 2] * 4
    assert len({request.group for request in requests}) == 4


def test_every_task_is_drawn_once_per_epoch_whatever_the_step_size():
    drawn = [request.task_index for step in range(1, 6) for request in requests_of(step, group_size=1)]
    assert sorted(drawn[:10]) == sorted(drawn[10:]) == list(range(10))
    assert drawn[:10] != drawn[10:]


def test_a_step_does_not_depend_on_those_before():
    assert requests_of(7) == requests_of(7)
    assert requests_of(7) != requests_of(8)


def test_another_seed_draws_other_tasks_and_other_samples():
    assert [r.task_index for r in requests_of(1)] != [r.task_index for r in requests_of(1, seed=2)]
    assert not {r.seed for r in requests_of(1)} & {r.seed for r in requests_of(1, seed=2)}


def test_every_rollout_of_a_run_has_its_own_seed():
    seeds = [request.seed for step in range(1, 9) for request in requests_of(step)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_task_that_comes_twice_in_a_step_makes_one_larger_group():
    requests = requests_of(1, num_tasks={"a": 2})
    samples = Counter(request.task_index for request in requests)
    assert samples == {0: 6, 1: 6}
    assert sorted(r.sample_index for r in requests if r.task_index == 0) == list(range(6))


@given(
    weights=st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0.01, 100), min_size=1, max_size=5),
    length=st.integers(1, 200),
)
def test_envs_alternate_by_weight_and_number_their_own_tasks(weights, length):
    counts = Counter()
    for position in range(length):
        env, number = env_at(position, weights)
        assert number == counts[env]
        counts[env] += 1
    total = sum(weights.values())
    assert all(abs(counts[env] - length * weight / total) < len(weights) for env, weight in weights.items())


def test_epochs_of_two_envs_of_equal_size_are_shuffled_differently():
    order = {env: [task_at(number, env, 20, seed=0) for number in range(20)] for env in "ab"}
    assert order["a"] != order["b"]


def test_evaluation_plays_the_same_tasks_with_the_same_seeds():
    settings = {"seed": 0, "num_tasks": {"a": 100}, "tasks": 10, "samples": 2}
    requests = eval_requests(**settings)
    assert requests == eval_requests(**settings)
    assert len(requests) == 20 and {request.split for request in requests} == {"eval"}
    assert set(requests) <= set(eval_requests(**(settings | {"tasks": 30})))


@pytest.mark.parametrize("tasks", [5, 7])
def test_evaluation_plays_all_tasks_where_fewer_are_there(tasks):
    assert len(eval_requests(seed=0, num_tasks={"a": 5}, tasks=tasks, samples=1)) == 5
