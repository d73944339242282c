"""Playing many episodes: seeds, failures, and averages by hand."""

import math
from collections.abc import Sequence
from functools import partial

import pytest

from envgym import InfrastructureError, Message, Reply, SetupError, Task, TextEnv
from envgym.env import Observation, Split
from envgym.evaluation.policy import Actor, empty, expert, random, scripted_policy
from envgym.evaluation.result import Job, Result, summarise
from envgym.evaluation.run import jobs_for, play_all, play_one


class Parity(TextEnv):
    """Pays for naming the parity of a number. Task 2 is broken."""

    isolation = "inline"

    def __init__(self) -> None:
        super().__init__(max_turns=2)

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(id=f"{split}-{n}", data={"number": n}, answer={"parity": n % 2}) for n in range(4)]

    def open(self, task: Task) -> Observation:
        return (Message(role="user", content=f"Is {task.data['number']} odd?"),)

    def respond(self, action: str) -> Reply:
        if self.task.data["number"] == 2:
            raise InfrastructureError("the oracle is closed")
        right = action == str(self.task.answer["parity"])
        return Reply(reward=float(right), done=right, success=right, reward_terms={"right": float(right)})


def always(action: str) -> object:
    def policy(env: TextEnv, seed: int) -> Actor:
        return lambda messages: action

    return policy


def job(task: int, sample: int = 0) -> Job:
    return Job(split="eval", task_index=task, sample_index=sample, seed=1)


def test_each_episode_has_a_seed_of_its_own_that_depends_on_nothing_else() -> None:
    few = jobs_for(10, split="eval", tasks=2, samples=2, seed=7)
    many = jobs_for(10, split="eval", tasks=5, samples=2, seed=7)

    assert many[:4] == few
    assert len({job.seed for job in many}) == 10


def test_more_tasks_than_there_are_means_all_of_them() -> None:
    assert len(jobs_for(3, split="train", tasks=50, samples=1, seed=0)) == 3


def test_results_come_in_order_however_many_play_at_once() -> None:
    jobs = jobs_for(4, split="eval", tasks=4, samples=3, seed=0)

    assert [result.job for result in play_all(Parity, always("0"), jobs, at_once=8)] == jobs


def test_infrastructure_failure_is_noted_and_the_other_episodes_go_on() -> None:
    results = list(play_all(Parity, always("0"), jobs_for(4, split="eval", tasks=4, samples=1, seed=0), at_once=2))

    assert [result.error for result in results] == [None, None, "InfrastructureError: the oracle is closed", None]
    assert results[2].rewards == ()


def test_wrong_input_ends_everything() -> None:
    def refuse(env: TextEnv, seed: int) -> Actor:
        raise SetupError("no such model")

    with pytest.raises(SetupError, match="no such model"):
        list(play_all(Parity, refuse, [job(0), job(1)], at_once=2))


def test_result_holds_the_conversation_with_the_actions_in_it() -> None:
    result = play_one(Parity, always("0"), job(1))

    assert [(message.role, message.text) for message in result.messages] == [
        ("user", "Is 1 odd?"),
        ("assistant", "0"),
        ("assistant", "0"),
    ]
    assert (result.rewards, result.success, result.metrics) == ((0.0, 0.0), False, {"turns": 2.0})


def test_summary_by_hand() -> None:
    def result(task: int, success: bool | None, *rewards: float, error: str | None = None) -> Result:
        terms = {"right": math.fsum(rewards)} if task == 0 else {}
        return Result(job=job(task), rewards=rewards, success=success, error=error, reward_terms=terms)

    summary = summarise(
        [
            result(0, True, 0.0, 1.0),
            result(0, False, 0.5),
            result(1, None, 0.0, 0.0, 0.0),  # no notion of success: its last turn was not rewarded
            result(1, None, error="down"),
        ]
    )

    assert (summary.episodes, summary.failed, summary.first_error) == (4, 1, "down")
    assert summary.success_rate == pytest.approx(1 / 3)
    assert summary.pass_at_k == pytest.approx(1 / 2)  # task 0 of tasks 0 and 1
    assert summary.mean_return == pytest.approx((1.0 + 0.5 + 0.0) / 3)
    assert summary.mean_turns == pytest.approx((2 + 1 + 3) / 3)
    assert summary.reward_terms == {"right": pytest.approx((1.0 + 0.5 + 0.0) / 3)}
    # Rates of the tasks: 1/2 and 0. Their variance is 1/8; the standard error of the mean is sqrt(1/8 / 2).
    assert summary.standard_error == pytest.approx(0.25)


def test_summary_of_nothing_is_nan_and_not_0() -> None:
    summary = summarise([Result(job=job(0), error="down")])

    assert math.isnan(summary.success_rate)
    assert math.isnan(summary.mean_return)


def test_unknown_scripted_policy_is_refused() -> None:
    with pytest.raises(SetupError, match="must be one of expert, random, empty"):
        scripted_policy("greedy")


def test_expert_of_an_env_without_one_is_refused() -> None:
    with pytest.raises(SetupError, match="Parity has no scripted expert"):
        expert(Parity(), 0)([])


@pytest.mark.parametrize("policy", [random, empty])
def test_scripted_policies_say_the_same_for_the_same_seed(policy: object) -> None:
    play = partial(play_one, Parity)

    assert play(policy, job(1)).messages == play(policy, job(1)).messages
