import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from envgym import BadGoldError, Message, SetupError, Task
from envgym.envs.qa import QaEnv
from envgym.envs.qa_task import MakeQuestion

CUBE = Task(id="1", data={"question": "What has six equal faces?"}, answer={"answers": ("cube", "die")})


def write(folder: Path, *rows: dict[str, Any]) -> str:
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def play(env: QaEnv, *actions: str, task: Task = CUBE) -> list[float]:
    env.reset(seed=1, options={"task": task})
    return [env.step(action)[1] for action in actions]


def opening(env: QaEnv, task: Task = CUBE) -> tuple[Message, ...]:
    return env.reset(seed=1, options={"task": task})[0]


def test_any_accepted_answer_is_right_and_ends_the_task() -> None:
    env = QaEnv()
    env.reset(seed=1, options={"task": CUBE})
    observation, reward, terminated, _, info = env.step("Surely <answer>a die</answer>")
    assert (observation, reward, terminated) == ((), 1.0, True)
    assert info["success"] is True
    assert info["reward_terms"] == {"exact_match": 1.0}


def test_rewards_are_chosen_by_name_with_weights_and_keywords() -> None:
    env = QaEnv(
        rewards=[
            {"name": "exact_match", "weight": 3, "kwargs": {"mode": "squad"}},
            {"name": "format", "weight": 1},
        ]
    )
    assert play(env, "<think>hm</think><answer>cube</answer>") == [1.0]
    assert play(env, "<answer>cube</answer>") == pytest.approx([0.75 + 0.25 * 0.75])
    assert play(env, "<think>hm</think><answer>ball</answer>") == [0.25]


def test_a_reward_of_ones_own_is_named_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "my_reward_for_qa.py"
    module.write_text(
        "def length(ground_truth, response, most=10, answer_tag='answer'):\n"
        "    return min(len(response), most) / most, None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for path in ("my_reward_for_qa:length", "my_reward_for_qa.length"):
        env = QaEnv(rewards=[{"name": path, "kwargs": {"most": 4}}])
        env.reset(seed=1, options={"task": CUBE})
        _, reward, _, _, info = env.step("ab")
        assert reward == 0.5
        assert info["success"] is None
    del sys.modules["my_reward_for_qa"]


def test_tag_names_reach_prompt_rewards_and_stop_strings() -> None:
    env = QaEnv(answer_tag="final", think_tag="plan", rewards=[{"name": "exact_match"}, {"name": "format"}])
    assert env.stop_strings == ("</final>",)
    assert "<final> short answer </final>" in opening(env)[0].text
    assert play(env, "<plan>x</plan><final>cube</final>") == [1.0]
    assert play(env, "<think>x</think><answer>cube</answer>") == [0.0]


def test_without_an_answer_tag_the_rewards_look_for_themselves() -> None:
    env = QaEnv(answer_tag=None, rewards=[{"name": "final_number"}])
    task = Task(id="1", data={"question": "6 * 7?"}, answer={"answers": ("42",)})
    assert env.stop_strings == ()
    assert opening(env, task)[0].text == "6 * 7?"
    assert play(env, "#### 42", task=task) == [1.0]


def test_several_turns_give_feedback_and_pay_right_at_once_best() -> None:
    env = QaEnv(max_turns=3)
    env.reset(seed=1, options={"task": CUBE})
    said = [env.step(action)[0] for action in ("no tag", "<answer>ball</answer>", "<answer>cube</answer>")]
    assert [message.text for (message,) in said[:2]] == [
        "There was no complete <answer> answer </answer>. Turns left: 2. Try again.",
        "That is not right. Turns left: 1. Try again.",
    ]
    assert said[2] == ()
    # 1 - 0.5 * 2 / 3 at the third turn
    assert play(env, "no tag", "<answer>ball</answer>", "<answer>cube</answer>") == pytest.approx([0, 0, 2 / 3])
    assert play(env, "<answer>cube</answer>") == [1.0]


def test_feedback_can_be_ones_own() -> None:
    env = QaEnv(max_turns=2, feedback="Still {turns_left}, use <{answer}>.")
    env.reset(seed=1, options={"task": CUBE})
    assert env.step("hm")[0][0].text == "Still 1, use <answer>."


def test_prompt_and_system_come_from_text_or_file(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("In <{answer}>, please: {question} ({max_turns})")
    (tmp_path / "system.txt").write_text("You are terse.")
    for prompt, system in (
        (str(tmp_path / "prompt.txt"), str(tmp_path / "system.txt")),
        ("In <{answer}>, please: {question} ({max_turns})", "You are terse."),
    ):
        assert opening(QaEnv(prompt=prompt, system=system)) == (
            Message(role="system", content="You are terse."),
            Message(role="user", content="In <answer>, please: What has six equal faces? (1)"),
        )


def test_a_prompt_may_name_other_fields_of_the_row_and_only_they_are_kept(tmp_path: Path) -> None:
    row = {"question": "Who?", "context": "Ada wrote it.", "answer": "Ada", "secret": "x"}
    env = QaEnv(tasks=write(tmp_path, row, {**row, "id": 7}), prompt="{context}\n{question}")
    (task,) = env.tasks("train")
    assert dict(task.data) == {"question": "Who?", "context": "Ada wrote it."}
    assert opening(env, task)[0].text == "Ada wrote it.\nWho?"


def test_tags_inside_a_question_are_made_harmless_unless_the_question_is_the_prompt() -> None:
    task = Task(id="1", data={"question": "Put it in <answer></answer>"}, answer=CUBE.answer)
    assert "Put it in &lt;answer>&lt;/answer>" in opening(QaEnv(), task)[0].text
    assert opening(QaEnv(prompt="{question}"), task)[0].text == "Put it in <answer></answer>"


def test_a_question_may_be_a_chat() -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Six faces?"},
    ]
    task = Task(id="1", data={"question": chat}, answer=CUBE.answer)
    messages = opening(QaEnv(prompt="Q: {question}"), task)
    assert [(message.role, message.text) for message in messages] == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hello."),
        ("user", "Q: Six faces?"),
    ]


@pytest.mark.parametrize(
    ("row", "arguments", "answers"),
    [
        ({"question": "q", "answer": "a"}, {}, ("a",)),
        ({"question": "q", "answers": ["a", "b"]}, {}, ("a", "b")),
        ({"problem": "q", "solution": "long", "answer": 42}, {}, ("42",)),
        (
            {"prompt": "q", "reward_model": {"ground_truth": "a"}},
            {"answer_field": "reward_model.ground_truth"},
            ("a",),
        ),
        ({"q": "q", "a.b": "x"}, {"question_field": "q", "answer_field": "a.b"}, ("x",)),
        ({"question": "q", "answer": {"box": [1, 2]}}, {}, ({"box": [1, 2]},)),
        ({"question": "q", "answer": [1, 2, 3, 4]}, {}, ([1, 2, 3, 4],)),
        ({"question": "q", "answer": True}, {}, ("true",)),
    ],
)
def test_rows_of_many_shapes_are_understood(
    tmp_path: Path, row: dict[str, Any], arguments: dict[str, Any], answers: tuple[object, ...]
) -> None:
    file = write(tmp_path, row)
    (task,) = QaEnv(tasks=file, eval_tasks=file, **arguments).tasks("train")
    assert task.data["question"] == "q"
    assert task.answer["answers"] == answers


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"text": "q", "answer": "a"},
            "there is no question or prompt or problem or input; name one of text, answer",
        ),
        ({"question": "q", "label": "a"}, "name one of question, label with env.answer_field"),
        ({"question": " ", "answer": "a"}, "the question is empty"),
        ({"question": "q", "answer": ""}, "the answer is empty"),
        ({"question": "q", "answers": []}, "the answer is empty"),
        ({"question": 7, "answer": "a"}, "the question must be a text or a list of messages (it is int)"),
        ({"question": [{"role": "user"}], "answer": "a"}, "a text as content"),
        ({"question": [{"role": "system", "content": "x"}], "answer": "a"}, "its last message is not the user's"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_file_and_line(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    file = write(tmp_path, row)
    with pytest.raises(SetupError, match=re.escape(message)) as caught:
        QaEnv(tasks=file)
    assert str(caught.value).startswith(f"{file}, line 1: ")


def test_tasks_come_from_a_dataset_and_rows_are_read_when_they_are_needed(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"id": f"row-{n}", "question": f"{n}?", "answers": {"text": [str(n)]}} for n in range(30)]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "rows")
    env = QaEnv(tasks=str(tmp_path / "rows"), answer_field="answers.text")
    train, held_out = env.tasks("train"), env.tasks("eval")
    assert len(train) + len(held_out) == 30
    assert {task.id for task in (*train, *held_out)} == {f"row-{n}" for n in range(30)}
    assert train[0].answer["answers"] == (train[0].data["question"].rstrip("?"),)
    assert [task.id for task in train[2:4]] == [train[2].id, train[3].id]


def test_a_gold_that_the_reward_cannot_read_is_not_the_models_fault() -> None:
    task = Task(id="1", data={"question": "?"}, answer={"answers": ("forty-two",)})
    env = QaEnv(rewards=[{"name": "final_number"}])
    env.reset(seed=1, options={"task": task})
    with pytest.raises(BadGoldError):
        env.step("#### 42")


def test_a_wider_reward_range_can_be_declared() -> None:
    box = Task(id="1", data={"question": "where?"}, answer={"answers": ("[0, 0, 10, 10]",)})
    env = QaEnv(rewards=[{"name": "bbox_giou", "kwargs": {"malformed": -1.0}}], reward_range=(-1, 1), max_turns=2)
    assert env.reward_range == (-1.0, 1.0)
    assert play(env, "hm", "hm", task=box) == [0.0, -1.0]
    assert play(env, "hm", "<answer>[0, 0, 10, 10]</answer>", task=box) == [0.0, 0.75]


def test_the_expert_is_right_at_once_in_the_embedded_tasks() -> None:
    env = QaEnv()
    for task in env.tasks("eval")[:200]:
        env.reset(seed=1, options={"task": task})
        assert [env.step(action)[1] for action in env.demonstrate(env.np_random)] == [1.0]
        assert task.answer["answers"][0] in task.data["question"]


def test_embedded_splits_ask_about_different_entities() -> None:
    env = QaEnv()
    asked = [{task.data["question"].split("\n")[1] for task in env.tasks(split)} for split in ("train", "eval")]
    assert asked[0].isdisjoint(asked[1])
    assert min(map(len, asked)) >= 500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rewards": [{"name": "nothing"}]}, "unknown reward 'nothing'"),
        ({"rewards": [{"name": "no.such:thing"}]}, "no.such:thing"),
        ({"answer_tag": "think"}, "are both 'think'"),
        ({"answer_tag": "a b"}, "tag name 'a b'"),
        ({"reward_range": (1, 1)}, "reward_range is [1, 1]"),
        ({"late_cost": 2}, "late_cost is 2"),
        ({"prompt": "none"}, "neither a file nor a text with the field {question}"),
        ({"feedback": "none"}, "neither a file nor a text with the field {turns_left}"),
        ({"eval_tasks": "x.jsonl"}, "eval_tasks was given without tasks"),
        ({"answer_field": "x"}, "are for tasks"),
        ({"prompt": "{context} {question}"}, "are for tasks"),
        ({"tasks": "x.jsonl"}, "x.jsonl does not exist"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=re.escape(message)):
        QaEnv(**arguments)


def test_a_field_that_the_prompt_names_must_be_in_every_row() -> None:
    with pytest.raises(SetupError, match="here: the prompt names 'context', and the fields are question, answer"):
        MakeQuestion(None, None, ("context",))({"question": "q", "answer": "a"}, "here", 0)
