"""Tasks as JSON lines: questions with their accepted answers."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from envgym.env import Split
from envgym.errors import SetupError
from envgym.json_lines import read_json_lines
from envgym.messages import Task

EVAL_SHARE = 10
"""One task in this many is for evaluation where one file serves both splits."""
_ANSWER_FIELDS = ("answers", "queries", "supporting_titles", "supporting_ids")
"""Ground truth: what never reaches the model."""


def load_tasks(tasks: str, eval_tasks: str | None) -> dict[Split, tuple[Task, ...]]:
    """Load the tasks of both splits: ``question`` and ``answers`` on each line, ``id`` and more if you like.

    Where there is no file for evaluation, a tenth of ``tasks``, at least one, is chosen by a hash of their ids, so
    that a task stays on its side when others are added.

    Raises:
        SetupError: if a file is missing, malformed or empty.
    """
    loaded = load_task_file(tasks)
    if eval_tasks is not None:
        return {"train": loaded, "eval": load_task_file(eval_tasks)}
    return split_by_id(loaded, tasks)


def load_task_file(path: str) -> tuple[Task, ...]:
    """Load one file; read once per process, and again if it changes."""
    resolved = Path(path).expanduser().resolve()
    if not resolved.is_file():
        raise SetupError(
            f"tasks file {path} does not exist; give a JSON-lines file of {{question, answers}} objects"
        )
    state = resolved.stat()
    return _load(resolved, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=16)
def _load(path: Path, modified: int, size: int) -> tuple[Task, ...]:
    tasks = tuple(make_task(fields, f"{path}, line {number}", number - 1) for number, fields in
                  read_json_lines(path, "tasks file"))  # fmt: skip
    if not tasks:
        raise SetupError(
            f"tasks file {path} holds no tasks; give a JSON-lines file of {{question, answers}} objects"
        )
    check_ids(tasks, str(path))
    return tasks


def make_task(fields: dict[str, Any], place: str, number: int) -> Task:
    """A task from a line's fields; ``place`` names the line in messages.

    Raises:
        SetupError: if the question or the answers are not what they should be.
    """
    question, answers = fields.get("question"), fields.get("answers")
    if not isinstance(question, str) or not question.strip():
        raise SetupError(f'{place}: "question" must be a string that is not empty')
    if isinstance(answers, str):
        answers = [answers]
    if not _is_strings(answers):
        raise SetupError(f'{place}: "answers" must be a list of at least one string')
    data = {name: value for name, value in fields.items() if name not in (*_ANSWER_FIELDS, "id", "titles")}
    truth = {name: tuple(fields[name]) for name in _ANSWER_FIELDS[1:] if _is_strings(fields.get(name))}
    return Task(
        id=str(fields.get("id", number)), data=data, answer={"answers": tuple(cast("list[str]", answers)), **truth}
    )


def _is_strings(value: object) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in cast("list[Any]", value))
    )


def check_ids(tasks: Iterable[Task], place: str) -> None:
    """Refuse two tasks of one id: their rollouts would be taken for one group."""
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise SetupError(f"{place}: two tasks have the id {task.id!r}; ids must differ")
        seen.add(task.id)


def split_by_id(tasks: tuple[Task, ...], place: str) -> dict[Split, tuple[Task, ...]]:
    """Divide tasks by a hash of their ids; the smallest hash is always for evaluation.

    Raises:
        SetupError: if there is only one task, which cannot serve both splits.
    """
    if len(tasks) < 2:
        raise SetupError(f"tasks file {place} holds one task; give at least 2, or name a file with env.eval_tasks")
    hashes = {task.id: int.from_bytes(hashlib.sha256(task.id.encode()).digest()[:8], "big") for task in tasks}
    smallest = min(hashes.values())
    chosen = {name for name, value in hashes.items() if value % EVAL_SHARE == 0 or value == smallest}
    if len(chosen) == len(tasks):
        chosen = {name for name, value in hashes.items() if value == smallest}
    return {
        "train": tuple(task for task in tasks if task.id not in chosen),
        "eval": tuple(task for task in tasks if task.id in chosen),
    }
