import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from envgym import SetupError, Task
from envgym.task_file import load_tasks


def write(folder: Path, tasks: Sequence[Mapping[str, object]], name: str = "tasks.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return str(path)


def numbered(count: int) -> list[dict[str, object]]:
    return [{"id": f"q{number}", "question": f"Question {number}?", "answers": ["x"]} for number in range(count)]


def test_one_file_serves_both_splits_which_share_no_task_and_lose_none(tmp_path: Path):
    splits = load_tasks(write(tmp_path, numbered(1_000)), None, 4)
    train, evaluation = ({task.id for task in splits[split]} for split in ("train", "eval"))
    assert not train & evaluation
    assert len(train | evaluation) == 1_000
    assert 70 <= len(evaluation) <= 130  # a tenth by hash: 100 expected, standard deviation 9.5


@pytest.mark.parametrize("count", [2, 3, 5, 11])
def test_each_split_of_a_small_file_has_at_least_one_task(tmp_path: Path, count: int):
    splits = load_tasks(write(tmp_path, numbered(count)), None, 4)
    assert len(splits["train"]) >= 1
    assert len(splits["eval"]) >= 1
    assert len(splits["train"]) + len(splits["eval"]) == count


def test_a_task_stays_on_its_side_when_the_order_changes_or_others_are_added(tmp_path: Path):
    few = load_tasks(write(tmp_path, numbered(200)), None, 4)
    more = load_tasks(write(tmp_path, numbered(400)[::-1], "more.jsonl"), None, 4)
    assert {task.id for task in few["eval"]} <= {task.id for task in more["eval"]}
    assert {task.id for task in few["train"]} <= {task.id for task in more["train"]}


def test_the_split_is_the_same_in_any_process(tmp_path: Path):
    path = write(tmp_path, numbered(100))
    program = (
        "from envgym.task_file import load_tasks\n"
        f"print(*(task.id for task in load_tasks({path!r}, None, 4)['eval']))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": "7", "PATH": ""},
    )
    assert other.stdout.split() == [task.id for task in load_tasks(path, None, 4)["eval"]]


def test_another_file_may_serve_evaluation(tmp_path: Path):
    tasks, others = write(tmp_path, numbered(5)), write(tmp_path, numbered(3), "eval.jsonl")
    splits = load_tasks(tasks, others, 4)
    assert [len(splits[split]) for split in ("train", "eval")] == [5, 3]


def test_a_file_of_one_task_is_refused_unless_another_serves_evaluation(tmp_path: Path):
    one = write(tmp_path, numbered(1))
    with pytest.raises(
        SetupError, match=r"holds one task; give at least 2, or name the others with env\.eval_tasks"
    ):
        load_tasks(one, None, 4)
    assert len(load_tasks(one, one, 4)["train"]) == 1


def test_files_are_read_once_and_again_when_they_changed(tmp_path: Path):
    path = write(tmp_path, numbered(20))
    first = load_tasks(path, None, 4)
    assert load_tasks(path, None, 4) is first
    write(tmp_path, numbered(30))
    assert sum(map(len, load_tasks(path, None, 4).values())) == 30


def only_task(folder: Path, fields: Mapping[str, object]) -> Task:
    return load_tasks(write(folder, [fields]), write(folder, numbered(1), "eval.jsonl"), 4)["train"][0]


def test_only_the_question_and_its_kind_can_be_seen_and_the_rest_is_truth_or_dropped(tmp_path: Path):
    task = only_task(
        tmp_path,
        {
            "question": "Who?",
            "kind": "bridge",
            "answers": ["Ada", " "],
            "answer": "Ada",
            "golden_answers": ["Ada"],
            "supporting_titles": ["Ada Lovelace"],
            "queries": ["who"],
            "context": [["Ada Lovelace", ["She."]]],
        },
    )
    assert task.data == {"question": "Who?", "kind": "bridge"}
    assert task.answer == {"answers": ("Ada",), "queries": ("who",), "supporting_titles": ("Ada Lovelace",)}
    assert "Ada" not in repr(task)


def test_a_single_answer_may_be_a_string_and_an_id_may_be_missing(tmp_path: Path):
    task = only_task(tmp_path, {"question": "Who?", "answers": "Ada", "id": None})
    assert (task.id, task.answer["answers"]) == ("0", ("Ada",))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"answers": ["x"]}, '"question" must be a string that is not empty'),
        ({"question": "", "answers": ["x"]}, '"question" must be a string that is not empty'),
        ({"question": "  ", "answers": ["x"]}, '"question" must be a string that is not empty'),
        ({"question": 3, "answers": ["x"]}, '"question" must be a string that is not empty'),
        ({"question": "?"}, '"answers" must be a list of strings'),
        ({"question": "?", "answers": []}, '"answers" must be a list of strings'),
        ({"question": "?", "answers": [3]}, '"answers" must be a list of strings'),
        ({"question": "?", "answers": ["", " "]}, "at least one of them not blank"),
        ({"question": "?", "answers": {"x": 1}}, '"answers" must be a list of strings'),
        ({"question": "?", "answers": ["x"], "max_turns": 9}, r"max_turns is 9 and the env's is 4"),
    ],
)
def test_a_task_that_cannot_be_used_is_named_by_file_and_line(
    tmp_path: Path, fields: dict[str, object], reason: str
):
    path = write(tmp_path, [*numbered(2), fields])
    with pytest.raises(SetupError, match=rf"tasks\.jsonl, line 3: .*{reason}") as caught:
        load_tasks(path, None, 4)
    assert "\n" not in str(caught.value)


def test_two_tasks_of_one_id_are_refused(tmp_path: Path):
    with pytest.raises(SetupError, match="two tasks have the id 'q0'"):
        load_tasks(write(tmp_path, [*numbered(3), *numbered(1)]), None, 4)


def test_a_missing_and_an_empty_file_are_refused(tmp_path: Path):
    with pytest.raises(SetupError, match=r"tasks file .*nowhere\.jsonl does not exist; give a JSON-lines file"):
        load_tasks(str(tmp_path / "nowhere.jsonl"), None, 4)
    with pytest.raises(SetupError, match=r"tasks\.jsonl holds no tasks"):
        load_tasks(write(tmp_path, []), None, 4)
    with pytest.raises(SetupError, match=r"eval\.jsonl holds no tasks"):
        load_tasks(write(tmp_path, numbered(3)), write(tmp_path, [], "eval.jsonl"), 4)
