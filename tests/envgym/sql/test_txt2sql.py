import pickle
import time

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from envgym import InfrastructureError, SetupError, Task, make_env
from envgym.envs.txt2sql import Txt2SqlEnv

pytestmark = pytest.mark.integration
COUNT = "SELECT count(*) FROM shop"


def play(env: Txt2SqlEnv, *actions: str):
    """The last step's result."""
    for action in actions:
        result = env.step(action)
    return result


def test_a_query_is_answered_with_a_table_and_the_turns_left(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks(COUNT))
    env.reset(seed=0)
    (message,), reward, terminated, truncated, info = env.step("I look. <sql>SELECT name, area FROM shop</sql>")
    assert message.role == "user"
    assert message.text == (
        "<observation>\nname | area\n--- | ---\nAda | 20.5\nBo | 31.0\nCy | NULL\n(3 rows)\n"
        "(4 turns left)\n</observation>"
    )
    assert (reward, terminated, truncated, info) == (0.0, False, False, {"reward_terms": {}})


@pytest.mark.parametrize(("solution", "reward"), [("SELECT 3", 1.0), ("SELECT 2", 0.0), ("SELEC 3", 0.0)])
def test_the_solution_ends_the_episode_with_its_reward(shop_tasks, solution, reward):
    env = Txt2SqlEnv(**shop_tasks(COUNT))
    env.reset(seed=0)
    observation, earned, terminated, truncated, info = env.step(f"<solution>{solution}</solution>")
    assert (observation, earned, terminated, truncated) == ((), reward, True, False)
    assert info["success"] is (reward == 1.0)
    assert info["reward_terms"] == {"execution_match": reward}
    assert info["metrics"]["turns"] == 1
    with pytest.raises(ResetNeeded):
        env.step("again")


def test_using_up_the_turns_ends_the_episode_without_success(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks(COUNT), max_turns=2)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = play(env, "<sql>SELECT 1</sql>", "<sql>SELECT 3</sql>")
    assert (observation, reward, terminated, truncated, info["success"]) == ((), 0.0, True, False, False)


def test_the_prompt_announces_schema_turns_and_tags(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks(COUNT, question="How many shops?"), max_turns=7, samples=1, sql_tag="query")
    (message,), info = env.reset(seed=0)
    for piece in ("name TEXT NOT NULL, -- e.g. 'Ada'", "You have 7 turns", "<query>", "Question: How many shops?"):
        assert piece in message.text
    assert info == {"task_id": "tasks-0"}
    assert env.stop_strings == ("</query>", "</solution>")
    assert COUNT not in message.text and COUNT not in repr(env.task)


def test_prompt_tags_and_rewards_come_from_arguments(shop_tasks, tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("{schema} Q: {question} {json}")
    env = Txt2SqlEnv(
        **shop_tasks(COUNT, question="How many?"),
        prompt=str(file),
        sql_tag="look",
        solution_tag="final",
        observation_tag="seen",
        rewards=[{"name": "execution_match", "weight": 3}, {"name": "format"}],
    )
    (message,), _ = env.reset(seed=0)
    assert message.text.endswith(") Q: How many? {json}")
    (message,), *_ = env.step("<look>SELECT 5</look>")
    assert message.text.startswith("<seen>\n5\n")
    _, reward, _, _, info = env.step("<final>SELECT 3</final>")
    # 3/4 of 1 for the match and 1/4 of the 0.75 that the format reward gives for an answer without thinking.
    assert reward == pytest.approx(0.9375)
    assert info["reward_terms"] == {"execution_match": 1.0, "format": 0.75}


def test_an_episode_without_a_solution_may_cost(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks(COUNT), max_turns=1, no_solution=-1.0)
    env.reset(seed=0)
    assert env.step("no idea")[1] == -1.0
    assert env.reward_range == (-1.0, 1.0)


def test_a_gold_that_does_not_run_is_an_infrastructure_error_and_stays_secret(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks("SELECT secret FROM shop"))
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match="task tasks-0") as caught:
        env.step("<solution>SELECT 1</solution>")
    assert "secret" not in str(caught.value)


def test_perturb_makes_constants_fail(shop_tasks):
    arguments = shop_tasks("SELECT sum(amount) FROM sale")
    for perturb, reward in ((False, 1.0), (True, 0.0)):
        env = Txt2SqlEnv(**arguments, perturb=perturb)
        env.reset(seed=0)
        assert env.step("<solution>SELECT 220</solution>")[1] == reward
        env.reset(seed=0)
        assert env.step("<solution>SELECT sum(amount) FROM sale</solution>")[1] == 1.0


def test_what_was_done_is_counted(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks(COUNT), explore_seconds=0.2)
    env.reset(seed=0)
    actions = (
        "hm",
        "<sql>SELECT x</sql>",
        "<sql>DROP TABLE shop</sql> then",
        "<solution>SELECT 3</solution> I hope",
    )
    metrics = play(env, *actions)[4]["metrics"]
    counted = (
        "queries",
        "queries_error",
        "queries_denied",
        "malformed",
        "trailing_text",
        "solution_right",
        "solution_wrong",
    )
    assert [metrics[name] for name in counted] == [2, 1, 1, 1, 2, 1, 0]
    assert all(isinstance(value, float) for value in metrics.values())


def test_the_same_actions_give_the_same_episode_also_with_clock_and_random(shop_tasks):
    arguments = shop_tasks(COUNT)
    action = "<sql>SELECT random(), datetime('now'), current_time, group_concat(name) FROM shop</sql>"
    episodes = []
    for _ in range(2):
        env = Txt2SqlEnv(**arguments)
        episodes.append((env.reset(seed=4), env.step(action), env.step("<solution>SELECT 1</solution>")))
    assert episodes[0] == episodes[1]


def test_a_task_of_ones_own_is_played(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks(COUNT))
    task = Task(id="mine", data={"question": "q", "db_id": "shop"}, answer={"golds": ("SELECT 5", "SELECT 6")})
    env.reset(options={"task": task})
    assert env.step("<solution>SELECT 6</solution>")[1] == 1.0
    with pytest.raises(SetupError, match="plain name"):
        env.reset(options={"task": Task(id="x", data={"question": "q", "db_id": "../shop"}, answer={})})


@pytest.mark.parametrize("max_turns", [1, 4])
def test_the_scripted_expert_solves_embedded_tasks(max_turns):
    env = Txt2SqlEnv(split="eval", perturb=True, max_turns=max_turns)
    for number in range(12):
        env.reset(seed=number)
        for action in env.demonstrate(np.random.default_rng(number)):
            _, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_gymnasium_accepts_it_alone_and_in_vectors():
    check_env(make_env("txt2sql"), skip_render_check=True)
    makers = [Txt2SqlEnv] * 2
    for vector in (SyncVectorEnv(makers), AsyncVectorEnv(makers, shared_memory=False)):
        vector.reset(seed=1)
        observations, rewards, *_ = vector.step(("<sql>SELECT 1</sql>",) * 2)
        assert all("1\n---\n1" in observation[0].text for observation in observations)
        assert list(rewards) == [0.0, 0.0]
        vector.close()


def test_it_pickles_in_the_middle_of_an_episode(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks(COUNT))
    env.reset(seed=0)
    env.step("<sql>SELECT 1</sql>")
    again = pickle.loads(pickle.dumps(env))
    assert again.step("<solution>SELECT 3</solution>")[1] == 1.0


def test_one_more_instance_costs_less_than_a_millisecond():
    Txt2SqlEnv()
    times = []
    for _ in range(20):
        started = time.perf_counter()
        Txt2SqlEnv()
        times.append(time.perf_counter() - started)
    assert min(times) < 0.001


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"comparator": "exact"}, "comparator is 'exact'"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"split": "test"}, "split is 'test'"),
        ({"sql_tag": "<sql>"}, "tag name"),
        ({"sql_tag": "Solution"}, "must differ"),
        ({"prompt": "no question"}, "neither a file nor a text"),
        ({"now": "today"}, "YYYY-MM-DD"),
        ({"max_rows": 0}, "max_rows is 0"),
        ({"explore_seconds": 0}, "explore_seconds"),
        ({"grade_seconds": 0}, "grading deadline"),
        ({"tolerance": -1}, "tolerance"),
        ({"no_solution": 1.0}, "no_solution"),
        ({"databases": "x"}, "go with tasks"),
        ({"tasks": "missing.json"}, "no task file"),
        ({"rewards": []}, "rewards"),
        ({"rewards": [{"name": "execution_match", "weight": 0}]}, "weight"),
        ({"rewards": [{"name": "execution_match", "kwargs": {"comparator": "set"}}]}, "own arguments"),
        ({"rewards": [{"name": "unknown"}]}, "unknown reward"),
    ],
)
def test_wrong_arguments_get_one_line(wrong, message):
    with pytest.raises(SetupError, match=message) as caught:
        Txt2SqlEnv(**wrong)
    assert "\n" not in str(caught.value)
