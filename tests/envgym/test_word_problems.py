import re
import subprocess
import sys

import pytest

from envgym.worlds.word_problems import LARGEST, LEVELS, PEOPLE, PROBLEMS, THINGS, make_problems


def test_the_last_computation_of_a_solution_gives_the_number() -> None:
    for tasks in make_problems(seed=3).values():
        for task in tasks:
            lines = [line.split(" = ") for line in task.answer["solution"].split("\n")]
            assert all(eval(left) == int(right) >= 2 for left, right in lines)
            assert lines[-1][1] == task.answer["number"]


def test_every_number_of_the_first_computation_is_stated_in_the_question() -> None:
    for task in make_problems(seed=3, level=1)["train"]:
        stated = set(re.findall("[0-9]+", task.data["question"])) | {"100"}  # "20 percent" is * 20 / 100
        assert set(re.findall("[0-9]+", task.answer["solution"].split(" = ")[0])) <= stated


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_has_as_many_events_as_its_number(level: int) -> None:
    tasks = make_problems(level=level)["train"]
    assert len(tasks) == PROBLEMS["train"]
    assert {task.data["level"] for task in tasks} == {level}
    assert min(len(task.answer["solution"].split("\n")) for task in tasks) == level


def test_all_levels_together_hold_the_problems_of_each() -> None:
    together = {task.id: task for task in make_problems(seed=5)["eval"]}
    apart = {task.id: task for level in LEVELS for task in make_problems(seed=5, level=level)["eval"]}
    assert together == apart
    assert len(together) == PROBLEMS["eval"] * len(LEVELS)


def test_splits_share_neither_people_nor_things_nor_problems() -> None:
    problems = make_problems()
    words = {
        split: {word.strip(".,?") for task in problems[split] for word in task.data["question"].split()}
        for split in ("train", "eval")
    }
    for names in (PEOPLE, THINGS):
        assert set(names["train"]) & words["eval"] == set()
        assert set(names["eval"]) & words["train"] == set()
    questions = [task.data["question"] for split in problems.values() for task in split]
    assert len(set(questions)) == len(questions)


def test_the_hardest_level_states_a_number_that_does_not_matter() -> None:
    for task in make_problems(level=LEVELS[-1])["eval"]:
        stated = [int(number) for number in re.findall("[0-9]+", task.data["question"])]
        assert len(stated) == LEVELS[-1] + 2
    assert len(LARGEST) == len(LEVELS)


def test_problems_are_the_same_in_another_process() -> None:
    code = "from envgym.worlds.word_problems import make_problems as m; print([m(7)[s][:20] for s in m(7)])"
    printed = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] == f"{[make_problems(7)[split][:20] for split in make_problems(7)]}\n"
