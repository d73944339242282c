"""What the env does, and that it keeps what every env promises."""

from pathlib import Path

import pytest
from codebreaker import CodebreakerEnv

import envgym


def playing(code: str, **arguments: int | str) -> CodebreakerEnv:
    env = CodebreakerEnv(**arguments)
    tasks = [*env.tasks("train"), *env.tasks("eval")]
    env.reset(options={"task": next(task for task in tasks if task.answer["code"] == code)})
    return env


def test_env_passes_every_check() -> None:
    envgym.check_env("codebreaker")


def test_env_is_listed_without_being_imported() -> None:
    assert "codebreaker" in envgym.env_names()


def test_guess_is_answered_with_how_close_it_is() -> None:
    observation, reward, terminated, _, _ = playing("316").step("I try <guess>361</guess>.")

    assert (observation[0].text, reward, terminated) == ("1 in place, 2 elsewhere.", 0.0, False)


def test_right_guess_earns_the_reward_and_ends_the_episode() -> None:
    _, reward, terminated, _, info = playing("316").step("<guess>3 1 6</guess>")

    assert (reward, terminated, info["success"]) == (1.0, True, True)


@pytest.mark.parametrize("action", ["", "316", "<guess>31</guess>", "<guess>317</guess>", "<guess>३१६</guess>"])
def test_action_that_is_no_code_is_told_the_form_and_costs_a_turn(action: str) -> None:
    env = playing("316")

    observation, reward, *_ = env.step(action)

    assert (reward, env.turn) == (0.0, 1)
    assert observation[0].text == "Write 3 digits from 1 to 6 as <guess>digits</guess>."


def test_prompt_and_tag_are_the_users(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("{length} digits, {symbols} symbols, <{guess}>, {max_turns} turns")
    env = CodebreakerEnv(prompt=str(tmp_path / "prompt.txt"), guess_tag="code", max_turns=4)

    opening, _ = env.reset(seed=1)

    assert opening[0].text == "3 digits, 6 symbols, <code>, 4 turns"
    assert env.stop_strings == ("</code>",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"symbols": 10}, "symbols is 10"),
        ({"length": 9}, "length is 9, which makes"),
        ({"length": 0}, "length is 0"),
        ({"guess_tag": "a b"}, "tag name 'a b'"),
        ({"prompt": "no/such/file"}, "neither a file nor a text"),
    ],
)
def test_wrong_argument_is_refused_with_its_value(arguments: dict[str, int | str], message: str) -> None:
    with pytest.raises(envgym.SetupError, match=message):
        CodebreakerEnv(**arguments)


def test_no_code_is_both_trained_on_and_evaluated_on() -> None:
    env = CodebreakerEnv()
    codes = {split: {task.answer["code"] for task in env.tasks(split)} for split in ("train", "eval")}

    assert len(codes["train"]) + len(codes["eval"]) == len(codes["train"] | codes["eval"]) == 216
