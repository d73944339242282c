import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from envgym.sql.preflight import check_task
from envgym.sql.rules import GradingRules
from envgym.sql.source import embedded_source
from envgym.worlds.database_schemas import SUBJECTS
from envgym.worlds.databases import make_world


def test_there_are_hundreds_of_tasks_for_training_and_evaluation():
    tasks = make_world(0).tasks
    assert len(tasks["train"]) > 1000 and len(tasks["eval"]) > 500
    for split in tasks.values():
        assert len({task.id for task in split}) == len(split)
        assert {task.data["kind"] for task in split} == {
            "count", "order", "aggregate", "group", "subquery", "join", "two joins",
        }  # fmt: skip


def test_splits_share_no_schema():
    tables = {
        split: {entity.one for subject in SUBJECTS[split] for entity in subject.entities} for split in SUBJECTS
    }
    assert not tables["train"] & tables["eval"]
    tasks = make_world(0).tasks
    databases = {split: {task.data["db_id"] for task in tasks[split]} for split in tasks}
    assert not databases["train"] & databases["eval"]


def test_questions_of_a_database_differ_and_never_show_the_gold():
    seen = set()
    for split in make_world(0).tasks.values():
        for task in split:
            key = (task.data["db_id"], task.data["question"])
            assert key not in seen
            seen.add(key)
            assert task.answer["golds"][0] not in repr(task)


@pytest.mark.integration
def test_a_sample_of_golds_passes_preflight_and_is_told_from_constants():
    source = embedded_source(0)
    rules = GradingRules(perturb=True)
    for split in source.tasks.values():
        for task in split[::60]:
            assert list(check_task(task, source, rules)) == [], task


def digest(seed: int) -> str:
    """Of all tasks and all rows of a world."""
    world = make_world(seed)
    text = (world.folder / "tasks.jsonl").read_text()
    for path in sorted(world.folder.glob("*.sqlite")):
        with closing(sqlite3.connect(path)) as connection:
            text += "\n".join([path.name, *connection.iterdump()])
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.integration
def test_the_same_seed_gives_the_same_world_in_any_process(tmp_path):
    program = (
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_database_world import digest\nprint(digest(3))"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ENVGYM_CACHE": str(tmp_path), "PYTHONHASHSEED": "7"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert elsewhere.stdout.strip() == digest(3)
    assert digest(4) != digest(3)


def test_databases_are_small_whole_and_linked():
    folder = make_world(0).folder
    files = sorted(folder.glob("*.sqlite"))
    assert len(files) == 5 * sum(map(len, SUBJECTS.values()))
    for path in files:
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            assert connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone() == (3,)
