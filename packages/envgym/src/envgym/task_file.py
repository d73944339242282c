"""Tasks as JSON lines or as rows of a dataset, divided into training and evaluation."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, cast

from envgym.env import Split
from envgym.errors import SetupError
from envgym.json_lines import read_json_lines
from envgym.messages import Task
from envgym.task_dataset import RowTasks, is_dataset, load_rows

EVAL_SHARE = 10
"""One task in this many is for evaluation where one source serves both splits."""
_TRUTH_FIELDS = ("queries", "supporting_titles", "supporting_ids")
"""Ground truth besides the answers: what never reaches the model."""

MakeTask: TypeAlias = Callable[[Mapping[str, Any], str, int], Task]
"""``make(fields, place, number)``: a task from a line or row. ``place`` names it in messages, ``number`` counts
from 0 and serves as an id where there is none. It raises ``SetupError`` for fields that it cannot use. Hashable,
since it is part of a cache's key."""


def make_task(fields: Mapping[str, Any], place: str, number: int) -> Task:
    """A task with a ``question`` and its accepted ``answers``, blank ones left out.

    Besides, a ``kind`` is shown (metrics are told apart by it), and ``queries``, ``supporting_titles`` and
    ``supporting_ids`` are kept as ground truth. Any other field may hold the answer and is dropped.

    Raises:
        SetupError: if the question or the answers are not what they should be.
    """
    question, answers = fields.get("question"), fields.get("answers")
    if not isinstance(question, str) or not question.strip():
        raise SetupError(f'{place}: "question" must be a string that is not empty')
    if isinstance(answers, str):
        answers = [answers]
    if not is_strings(answers) or not any(answer.strip() for answer in answers):
        raise SetupError(f'{place}: "answers" must be a list of strings, at least one of them not blank')
    data = {name: fields[name] for name in ("question", "kind") if isinstance(fields.get(name), str)}
    truth = {name: tuple(fields[name]) for name in _TRUTH_FIELDS if is_strings(fields.get(name))}
    accepted = tuple(answer for answer in answers if answer.strip())
    return Task(id=task_id(fields, number), data=data, answer={"answers": accepted, **truth})


def task_id(fields: Mapping[str, Any], number: int) -> str:
    """The ``id`` of a line or row, or its number where it has none."""
    given = fields.get("id")
    return str(number if given is None else given)


def is_strings(value: object) -> TypeGuard[list[str]]:
    """Whether this is a list of at least one string, and of nothing else."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, str) for item in cast("list[object]", value))


def load_tasks(
    tasks: str, eval_tasks: str | None, max_turns: int, make: MakeTask = make_task
) -> Mapping[Split, Sequence[Task]]:
    """Load the tasks of both splits, each from a JSON-lines file or a dataset (see ``envgym.task_dataset``).

    Where nothing is named for evaluation, a tenth of ``tasks``, at least one, is chosen by a hash of their ids, so
    that a task stays on its side when others are added. Read once per process, and again if a file changes.

    Raises:
        SetupError: if a file or dataset is missing, malformed or empty, or if a task asks for other turns than
            ``max_turns``, the env's.
    """
    read = _Reading(make=make, max_turns=max_turns)
    return _load_splits(_version(tasks), None if eval_tasks is None else _version(eval_tasks), read)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """``make``, for an env of so many turns."""

    make: MakeTask
    max_turns: int

    def __call__(self, fields: Mapping[str, Any], place: str, number: int) -> Task:
        """A task from a row, which may not announce other turns: an env has one source of them."""
        nested = fields.get("extra_info")
        more: Mapping[str, Any] = cast("Mapping[str, Any]", nested) if isinstance(nested, Mapping) else {}
        for turns in (fields.get("max_turns"), more.get("max_turns")):
            if turns is not None and turns != self.max_turns:
                raise SetupError(
                    f"{place}: max_turns is {turns!r} and the env's is {self.max_turns}; set env.max_turns to it, "
                    "or leave it out of the tasks"
                )
        return self.make(fields, place, number)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Version:
    """A source of tasks, and for a file its state."""

    source: str
    modified: int = 0
    size: int = 0


def _version(source: str) -> _Version:
    if is_dataset(source):
        return _Version(source=source)
    path = Path(source).expanduser().resolve()
    if not path.is_file():
        raise SetupError(f"tasks file {source} does not exist; give a JSON-lines file or the name of a dataset")
    state = path.stat()
    return _Version(source=str(path), modified=state.st_mtime_ns, size=state.st_size)


@lru_cache(maxsize=16)
def _load_splits(tasks: _Version, eval_tasks: _Version | None, read: _Reading) -> Mapping[Split, Sequence[Task]]:
    loaded = _load(tasks, read)
    if eval_tasks is not None:
        return {"train": loaded, "eval": _load(eval_tasks, read)}
    return split_by_id(loaded, tasks.source)


def _load(version: _Version, read: _Reading) -> Sequence[Task]:
    tasks = _row_tasks(version.source, read) if is_dataset(version.source) else _file_tasks(version.source, read)
    if not tasks:
        raise SetupError(f"{version.source} holds no tasks")
    check_ids(tasks, version.source)
    return tasks


def _file_tasks(path: str, read: _Reading) -> tuple[Task, ...]:
    lines = read_json_lines(Path(path), "tasks file")
    return tuple(read(fields, f"{path}, line {number}", number - 1) for number, fields in lines)


def _row_tasks(source: str, read: _Reading) -> RowTasks:
    rows = load_rows(source)
    return RowTasks(rows=rows, numbers=range(len(rows)), make=lambda row, n: read(row, f"{source}, row {n}", n))


def check_ids(tasks: Iterable[Task], place: str) -> None:
    """Refuse two tasks of one id: their rollouts would be taken for one group."""
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise SetupError(f"{place}: two tasks have the id {task.id!r}; ids must differ")
        seen.add(task.id)


def split_by_id(tasks: Sequence[Task], place: str) -> dict[Split, Sequence[Task]]:
    """Divide tasks by a hash of their ids; the smallest hash is always for evaluation.

    Raises:
        SetupError: if there is only one task, which cannot serve both splits.
    """
    if len(tasks) < 2:
        raise SetupError(f"{place} holds one task; give at least 2, or name the others with env.eval_tasks")
    hashes = [int.from_bytes(hashlib.sha256(task.id.encode()).digest()[:8], "big") for task in tasks]
    smallest = min(hashes)
    evaluated = [value % EVAL_SHARE == 0 or value == smallest for value in hashes]
    if all(evaluated):
        evaluated = [value == smallest for value in hashes]
    return {
        "train": _select(tasks, [number for number, chosen in enumerate(evaluated) if not chosen]),
        "eval": _select(tasks, [number for number, chosen in enumerate(evaluated) if chosen]),
    }


def _select(tasks: Sequence[Task], numbers: Sequence[int]) -> Sequence[Task]:
    if isinstance(tasks, RowTasks):
        return tasks.select(numbers)
    return tuple(tasks[number] for number in numbers)
