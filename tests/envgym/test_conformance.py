"""Every registered env in Gymnasium's hands, and what it costs. ``envgym.check_env`` looks at the rest."""

import pickle
import threading
import time
import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from envgym import MessagesSpace, TextEnv, TextSpace, env_names, make_env

every_env = pytest.mark.parametrize("name", env_names())


@every_env
def test_gymnasiums_checker_accepts_it(name: str):
    env = make_env(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(render|spec).*")
        check_env(env, skip_render_check=True)
    env.close()


@every_env
def test_gymnasium_makes_it_and_plays_it_to_its_end(name: str):
    env = gymnasium.make(f"envgym/{name}-v0", max_turns=2)
    assert env.get_wrapper_attr("stop_strings") == make_env(name).stop_strings
    messages, _ = env.reset(seed=5)
    assert messages in env.observation_space
    ends = []
    for _ in range(2):
        messages, reward, terminated, truncated, info = env.step("nothing of the kind")
        ends.append((terminated, truncated))
        assert messages in env.observation_space and reward == 0.0
    assert ends == [(False, False), (True, False)]
    assert info["success"] is False and set(info) == {"reward_terms", "success", "metrics"}
    env.close()


@pytest.mark.integration
@every_env
@pytest.mark.parametrize("asynchronous", [False, True])
def test_it_plays_in_gymnasiums_vector_envs(name: str, asynchronous: bool):
    makers = [lambda: gymnasium.make(f"envgym/{name}-v0", max_turns=2)] * 2
    envs = AsyncVectorEnv(makers, shared_memory=False) if asynchronous else SyncVectorEnv(makers)
    observations, infos = envs.reset(seed=3)
    assert len(observations) == 2 and len(infos["task_id"]) == 2
    for _ in range(2):
        _, rewards, terminated, truncated, _ = envs.step(("nothing", "of the kind"))
    assert list(rewards) == [0.0, 0.0]
    assert list(terminated) == [True, True] and not truncated.any()
    envs.close()


@every_env
def test_one_more_instance_costs_under_a_millisecond(name: str):
    make_env(name)  # loads what is shared
    costs = []
    for _ in range(100):
        start = time.perf_counter()
        make_env(name)
        costs.append(time.perf_counter() - start)
    assert sorted(costs)[25] < 1e-3  # the lower quartile: a busy machine adds, it never takes away


@every_env
def test_instances_share_their_tasks_and_keep_their_state_apart(name: str):
    first, second = make_env(name), make_env(name)
    for split in ("train", "eval"):
        assert first.tasks(split)[0] is second.tasks(split)[0]
    first.reset(seed=1)
    second.reset(seed=1)
    assert first.step("nothing")[0] == second.step("nothing")[0]
    assert (first.turn, second.turn) == (1, 1)


@every_env
def test_it_declares_what_a_generator_needs(name: str):
    env = make_env(name)
    assert isinstance(env.stop_strings, tuple) and all(env.stop_strings)
    assert env.isolation in ("inline", "thread", "process")
    assert env.deadline_s > 0 and env.version
    assert env.action_space == TextSpace() and env.observation_space == MessagesSpace()
    assert env.metadata["render_modes"] == []


def play_expert(env: TextEnv, seed: int) -> list[tuple[str, float, bool]]:
    messages, _ = env.reset(seed=seed)
    episode = [(messages[0].text, 0.0, False)]
    for action in env.demonstrate(env.np_random):
        messages, reward, terminated, _, _ = env.step(action)
        episode.append(("".join(message.text for message in messages), reward, terminated))
    return episode


def expert_episodes(name: str) -> list[list[tuple[str, float, bool]]]:
    env = make_env(name)
    return [play_expert(env, seed) for seed in range(5)]


@every_env
def test_its_expert_earns_all_and_plays_the_same_for_the_same_seed(name: str):
    episodes = expert_episodes(name)
    assert all(sum(reward for _, reward, _ in episode) == pytest.approx(1.0) for episode in episodes)
    assert all(episode[-1][2] for episode in episodes)
    assert episodes == expert_episodes(name)


@every_env
def test_it_plays_the_same_in_a_thread_and_after_pickling(name: str):
    episodes: list[object] = []
    thread = threading.Thread(target=lambda: episodes.extend(expert_episodes(name)))
    thread.start()
    thread.join()
    copy = pickle.loads(pickle.dumps(make_env(name)))
    assert episodes == [play_expert(copy, seed) for seed in range(5)]
