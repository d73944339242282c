"""The promises that ``TextEnv`` keeps for every env, on a toy."""

import math
from collections.abc import Sequence

import pytest
from gymnasium.error import ResetNeeded

from envgym import Message, Reply, RewardError, SetupError, Task, TextEnv
from envgym.env import Observation, Split

TASKS = [Task(id=str(number), data={}, answer={"number": number}) for number in range(10)]


class Toy(TextEnv):
    """Pays what the action says; ``end`` ends."""

    isolation = "inline"

    def tasks(self, split: Split) -> Sequence[Task]:
        return TASKS if split == "train" else TASKS[:1]

    def open(self, task: Task) -> Observation:
        return (Message(role="user", content=f"{self.turns_left} turns"),)

    def respond(self, action: str) -> Reply:
        said = (Message(role="user", content=f"{self.turns_left} left"),)
        if action == "end":
            return Reply(done=True, success=True, reward_terms={"right": 1.0}, metrics={"seen": 2.0})
        return Reply(reward=float(action), observation=said, reward_terms={"said": float(action)})


def test_step_before_reset_and_after_the_end_asks_for_a_reset():
    env = Toy(max_turns=3)
    with pytest.raises(ResetNeeded):
        env.step("0")
    env.reset(seed=1)
    assert env.step("end")[2]
    with pytest.raises(ResetNeeded):
        env.step("0")
    env.reset()
    assert not env.step("0")[2]


def test_using_up_the_turns_terminates_and_does_not_truncate():
    env = Toy(max_turns=3)
    env.reset(seed=1)
    assert [env.step("0")[2:4] for _ in range(3)] == [(False, False), (False, False), (True, False)]


def test_the_turns_that_are_left_are_counted_from_the_opening_on():
    env = Toy(max_turns=2)
    opening, _ = env.reset(seed=1)
    assert [opening[0].text, env.step("0")[0][0].text, env.step("0")[0][0].text] == ["2 turns", "1 left", "0 left"]


def test_the_last_info_has_success_terms_and_metrics_and_the_others_terms_only():
    env = Toy(max_turns=3)
    _, info = env.reset(seed=1)
    assert info == {"task_id": env.task.id}
    assert env.step("0.25")[4] == {"reward_terms": {"said": 0.25}}
    assert env.step("end")[4] == {
        "reward_terms": {"right": 1.0},
        "success": True,
        "metrics": {"turns": 2.0, "seen": 2.0},
    }


def test_an_unrewarded_turn_gives_zero_and_never_none():
    env = Toy(max_turns=1)
    env.reset(seed=1)
    assert env.step("end")[1] == 0.0


def test_reset_plays_the_task_it_is_given_or_draws_one_from_its_split_by_seed():
    env = Toy(max_turns=1)
    env.reset(seed=1, options={"task": TASKS[7]})
    assert env.task is TASKS[7]
    drawn = []
    for seed in [*range(20), *range(20)]:
        env.reset(seed=seed)
        drawn.append(env.task.id)
    assert drawn[:20] == drawn[20:] and len(set(drawn)) > 5
    evaluating = Toy(max_turns=1, split="eval")
    evaluating.reset(seed=5)
    assert evaluating.task is TASKS[0]


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1.5, -0.5])
def test_a_reward_that_is_not_finite_or_outside_its_range_is_the_envs_fault(reward: float):
    env = Toy(max_turns=2)
    env.reset(seed=1)
    with pytest.raises(RewardError) as caught:
        env.step(str(reward))
    assert math.isnan(reward) or caught.value.reward == reward


def test_rewards_that_add_up_beyond_the_range_are_the_envs_fault():
    env = Toy(max_turns=3)
    env.reset(seed=1)
    env.step("0.75")
    with pytest.raises(RewardError, match=r"0\.5 \(sum 1\.25\)"):
        env.step("0.5")


def test_an_episode_may_be_abandoned_half_way():
    env = Toy(max_turns=3)
    env.reset(seed=1)
    env.step("1")
    env.reset(seed=1)
    assert env.step("1")[1] == 1.0


def test_turns_and_split_are_checked():
    with pytest.raises(SetupError, match="max_turns is 0"):
        Toy(max_turns=0)
    with pytest.raises(SetupError, match="'train' or 'eval'"):
        Toy(max_turns=1, split="test")  # pyright: ignore[reportArgumentType]


def test_an_env_without_an_expert_says_so():
    env = Toy(max_turns=1)
    env.reset(seed=1)
    with pytest.raises(NotImplementedError, match="Toy has no scripted expert"):
        next(env.demonstrate(env.np_random))


def test_ground_truth_is_not_in_the_repr_of_a_task():
    assert "914" not in repr(Task(id="1", data={"question": "?"}, answer={"number": 914}))
