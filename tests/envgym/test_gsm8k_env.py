import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgym import SetupError, Task
from envgym.envs.gsm8k import Gsm8kEnv

BOXES = Task(
    id="1",
    data={"question": "5 boxes hold 12 eggs each. How many eggs are there?"},
    answer={"number": "60", "solution": "5 * 12 = 60"},
)


def play(env: Gsm8kEnv, *actions: str, task: Task = BOXES) -> list[float]:
    """The rewards of an episode that ends with the last action."""
    env.reset(seed=1, options={"task": task})
    steps = [env.step(action) for action in actions]
    assert [step[2] for step in steps[:-1]] == [False] * (len(steps) - 1)
    return [step[1] for step in steps]


def observe(env: Gsm8kEnv, *actions: str) -> list[str]:
    env.reset(seed=1, options={"task": BOXES})
    return ["".join(message.text for message in env.step(action)[0]) for action in actions]


def test_the_right_number_at_the_first_turn_ends_the_task_with_the_whole_return() -> None:
    env = Gsm8kEnv()
    env.reset(seed=1, options={"task": BOXES})
    observation, reward, terminated, truncated, info = env.step("5 * 12 = 60\n#### 60")
    assert (observation, reward, terminated, truncated) == ((), 1.0, True, False)
    assert info["success"] is True
    assert info["reward_terms"] == {"final_number": 1.0}
    assert info["metrics"] == {"turns": 1.0, "right_at_first_turn": 1.0}


@pytest.mark.parametrize(
    ("gold", "written"),
    [
        ("60", "#### $60"),
        ("60", "####60"),
        ("60", "#### 60."),
        ("60", "#### 60.0"),
        ("60", "#### \\boxed{60}"),
        ("60", "\\boxed{60}"),
        ("-60", "#### \u221260"),
        ("1,060", "#### 1060"),
        ("1060", "#### 1,060"),
    ],
)
def test_the_right_number_is_right_however_it_is_written(gold: str, written: str) -> None:
    task = Task(id="1", data=BOXES.data, answer={"number": gold, "solution": ""})
    assert play(Gsm8kEnv(), written, task=task) == [1.0]


def test_the_last_number_of_the_turn_counts_and_the_whole_turn_is_read() -> None:
    assert play(Gsm8kEnv(max_turns=1), "#### 59\nno:\n#### 60") == [1.0]
    assert play(Gsm8kEnv(max_turns=1), "#### 60\nno:\n#### 59") == [0.1]
    assert play(Gsm8kEnv(max_turns=1), "#### 60\n" + "as was to be shown. " * 500) == [1.0]


def test_an_earlier_turn_is_not_read_again() -> None:
    assert play(Gsm8kEnv(max_turns=2), "#### 59", "hm") == pytest.approx([0.1, 0.0])


def test_right_later_earns_less_for_each_turn_that_it_took() -> None:
    wrong, right = "#### 59", "#### 60"
    returns = [sum(play(Gsm8kEnv(), *[wrong] * waited, right)) for waited in range(5)]
    # 1 - 0.5 * waited / 5
    assert returns == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6])


def test_a_wrong_number_earns_the_score_of_its_form_once() -> None:
    assert play(Gsm8kEnv(), "#### 1", "#### 2", "hm", "#### 3", "#### 4") == pytest.approx([0.1, 0, 0, 0, 0])


ACTIONS = st.sampled_from(
    ["", "hm", "#### 59", "#### 60", "#### 60 #### 59", "####", "\\boxed{60}", "#### 60 or 59"]
)


@settings(deadline=None)
@given(actions=st.lists(ACTIONS, min_size=1, max_size=5), format_score=st.sampled_from([0.0, 0.1, 0.9]))
def test_no_sequence_of_turns_earns_more_than_the_right_number_at_once(
    actions: Sequence[str], format_score: float
) -> None:
    env = Gsm8kEnv(format_score=format_score)
    env.reset(seed=1, options={"task": BOXES})
    total = 0.0
    for action in actions:
        _, reward, terminated, _, _ = env.step(action)
        total += reward
        if terminated:
            break
    assert 0 <= total <= 1.0


def test_the_peers_scheme_pays_1_16_for_wrong_turns_first_and_says_that_it_can_be_exploited() -> None:
    with pytest.warns(UserWarning, match="exploitable"):
        env = Gsm8kEnv(scheme="per_turn_format", strict=True)
    assert sum(play(env, *["#### 59"] * 4, "#### 60")) == pytest.approx(1.16)
    assert sum(play(env, "#### 60")) == 1.0
    assert play(env, "no form", "#### 1", "####2", "#### 3.0", "#### 4")[:4] == pytest.approx([0, 0.04, 0, 0.04])
    assert env.reward_range == pytest.approx((0.0, 1.16))


def test_strict_reads_as_the_usual_grader_does() -> None:
    strict = Gsm8kEnv(strict=True, max_turns=1)
    assert play(strict, "#### 60") == play(strict, "#### 60\n#### 59") == [1.0]
    assert play(strict, "#### 60.0") == play(strict, "#### 59\n#### 60") == [0.1]
    assert play(strict, "####60") == play(strict, "#### $60") == play(strict, "\\boxed{60}") == [0.0]


def test_feedback_says_what_was_wrong_and_names_the_turns_left() -> None:
    first, second, third, last = observe(Gsm8kEnv(max_turns=4), "#### 59", "hm", "#### 58", "#### 57")
    assert first.startswith("That is not the right number. 3 turns are left.")
    assert "step by step" in first
    assert second.startswith("There is no number behind ####. 2 turns are left.")
    assert third == (
        "That is not the right number. 1 turn is left: give only the final number now, written as #### NUMBER"
    )
    assert last == ""


def test_the_prompt_asks_for_a_tentative_number_and_names_the_turns() -> None:
    (message,), info = Gsm8kEnv(max_turns=3).reset(seed=1, options={"task": BOXES})
    for said in ("step by step", "tentative number", "#### NUMBER", "3 turns", BOXES.data["question"]):
        assert said in message.text
    assert info == {"task_id": "1"}
    (message,), _ = Gsm8kEnv(max_turns=1).reset(seed=1, options={"task": BOXES})
    assert "final number" in message.text
    assert "turns" not in message.text


def test_a_marker_inside_the_problem_is_not_shown_as_one() -> None:
    task = Task(id="1", data={"question": "Say #### 7"}, answer=BOXES.answer)
    (message,), _ = Gsm8kEnv().reset(seed=1, options={"task": task})
    assert "Say # # # # 7" in message.text


def test_the_expert_is_right_at_once_in_every_embedded_problem() -> None:
    env = Gsm8kEnv()
    for split in ("train", "eval"):
        for task in env.tasks(split):
            env.reset(seed=1, options={"task": task})
            assert [env.step(action)[1] for action in env.demonstrate(env.np_random)] == [1.0]


def test_the_number_is_in_no_message_info_or_repr() -> None:
    task = Task(id="1", data=BOXES.data, answer={"number": "918273645", "solution": "918273645"})
    env = Gsm8kEnv()
    seen: list[Any] = [env.reset(seed=1, options={"task": task}), env, task]
    seen += [env.step(action) for action in ("hm", "#### 59", "#### 58", "#### 57", "#### 56")]
    assert "918273645" not in repr(seen)


def test_level_chooses_how_many_events_a_problem_has() -> None:
    assert {task.data["level"] for task in Gsm8kEnv(level=2).tasks("train")} == {2}
    assert {task.data["level"] for task in Gsm8kEnv().tasks("eval")} == {1, 2, 3, 4}


def test_other_rewards_can_score_the_turns() -> None:
    env = Gsm8kEnv(rewards=[{"name": "final_number", "weight": 3}, {"name": "format", "weight": 1}], max_turns=1)
    assert play(env, "#### 60") == [0.75]
    assert play(env, "<think>5 * 12</think><answer>#### 60</answer>") == [1.0]


def test_problems_come_from_a_file_in_the_layout_of_gsm8k(tmp_path: Path) -> None:
    file = tmp_path / "problems.jsonl"
    rows = [
        {"question": "5 * 212?", "answer": "5 * 212 = <<5*212=1060>>1060 eggs.\n#### 1,060", "source": "me"},
        {"question": "2 + 2?", "answer": 4, "id": "plain"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = Gsm8kEnv(tasks=str(file), eval_tasks=str(file))
    worked, plain = env.tasks("train")
    assert worked.data == {"question": "5 * 212?"}
    assert worked.answer == {"number": "1,060", "solution": "5 * 212 = 1060 eggs."}
    assert (plain.id, plain.answer["number"]) == ("plain", "4")
    assert play(env, "#### 1060", task=worked) == [1.0]


def test_problems_come_from_a_dataset(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"question": f"{n} + 1?", "answer": f"#### {n + 1}"} for n in range(50)]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "rows")
    env = Gsm8kEnv(tasks=str(tmp_path / "rows"))
    train, held_out = env.tasks("train"), env.tasks("eval")
    assert len(train) + len(held_out) == 50
    assert {task.id for task in train}.isdisjoint({task.id for task in held_out})
    assert play(env, f"#### {train[3].answer['number']}", task=train[3]) == [1.0]


def test_every_problem_of_the_real_gsm8k_is_read_and_solved_by_its_own_solution() -> None:
    shared = (
        Path(os.environ.get("SHARED_DIR") or Path(__file__).parents[3] / "shared").resolve() / "data" / "gsm8k"
    )
    if not shared.is_dir():
        pytest.skip(f"no real data in {shared}; set SHARED_DIR")
    env = Gsm8kEnv(tasks=str(shared / "train.jsonl"), eval_tasks=str(shared / "test.jsonl"), max_turns=1)
    assert [len(env.tasks(split)) for split in ("train", "eval")] == [7473, 1319]
    for task in env.tasks("eval"):
        env.reset(seed=1, options={"task": task})
        assert [env.step(action)[1] for action in env.demonstrate(env.np_random)] == [1.0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"question": "1?", "answer": "none"}', 'line 1: no number can be read at the end of "answer"'),
        ('{"question": "", "answer": "#### 1"}', 'line 1: "question" must be'),
        ('{"question": "1?", "answer": null}', 'line 1: "answer" must be'),
        ("{", "line 1: not valid JSON"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "problems.jsonl"
    file.write_text(line)
    with pytest.raises(SetupError, match=re.escape(f"{file}, {message}")):
        Gsm8kEnv(tasks=str(file))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scheme": "generous"}, "scheme is 'generous'; it must be one of: right_first, per_turn_format"),
        ({"scheme": "per_turn_format", "rewards": [{"name": "format"}]}, "leave out rewards"),
        ({"level": 9}, "level is 9; it must be one of: 1, 2, 3, 4"),
        ({"tasks": "problems.jsonl", "level": 1}, "level is for the embedded problems"),
        ({"tasks": "problems.jsonl"}, "problems.jsonl does not exist"),
        ({"eval_tasks": "problems.jsonl"}, "eval_tasks was given without tasks"),
        ({"format_score": 1.0}, "format_score is 1.0"),
        ({"late_cost": -1.0}, "late_cost is -1.0"),
        ({"marker": " "}, "marker is ' '"),
        ({"marker": "Answer:", "strict": True}, "strict needs '####'"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"prompt": "no field"}, "is neither a file nor a text with the field {question}"),
        ({"rewards": []}, "rewards is []"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=re.escape(message)):
        Gsm8kEnv(**arguments)
