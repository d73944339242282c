"""The embedded world of the search env."""

import subprocess
import sys

import pytest

from envgym.retrieval.bm25 import Bm25Retriever
from envgym.worlds.search import JOBS, World, make_world


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(0)


def entities(world: World, split: str) -> set[str]:
    """Every name that a split's tasks mention, pass through or ask for."""
    tasks = world.tasks["train" if split == "train" else "eval"]
    return {name for task in tasks for name in (*task.answer["queries"], *task.answer["answers"])} - set(JOBS)


def test_world_has_at_least_2000_documents_with_distinct_titles(world: World) -> None:
    assert len(world.documents) >= 2_000
    assert len({document.title for document in world.documents}) == len(world.documents)


def test_splits_share_no_entity(world: World) -> None:
    assert entities(world, "train")
    assert not entities(world, "train") & entities(world, "eval")


def test_each_split_holds_at_least_2000_tasks_of_one_and_two_hops(world: World) -> None:
    for tasks in world.tasks.values():
        assert len(tasks) >= 2_000
        assert {len(task.answer["queries"]) for task in tasks} == {1, 2}
        assert len({task.id for task in tasks}) == len(tasks)


def test_the_expert_queries_find_the_supporting_documents_first(world: World) -> None:
    retriever = Bm25Retriever(world.documents)
    for task in world.tasks["eval"][:300]:
        for query, title in zip(task.answer["queries"], task.answer["supporting_titles"], strict=True):
            assert retriever.search(query, 1)[0].title == title


def test_the_last_supporting_document_states_the_answer(world: World) -> None:
    text = {document.title: document.text for document in world.documents}
    for split in ("train", "eval"):
        for task in world.tasks[split]:
            assert task.answer["answers"][0] in text[task.answer["supporting_titles"][-1]]


def test_the_question_names_no_answer(world: World) -> None:
    for task in world.tasks["eval"]:
        assert task.answer["answers"][0] not in task.data["question"].split()


def test_another_seed_gives_another_world(world: World) -> None:
    assert make_world(1).documents != world.documents


def test_the_same_seed_gives_the_same_world_in_another_process(world: World) -> None:
    code = (
        "from envgym.worlds.search import make_world; w = make_world(0); "
        "print(w.documents[7], w.tasks['eval'][7].id)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True)
        for seed in ("1", "2")
    ]
    expected = f"{world.documents[7]} {world.tasks['eval'][7].id}"
    assert [run.stdout.strip() for run in runs] == [expected, expected]
