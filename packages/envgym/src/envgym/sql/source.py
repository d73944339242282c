"""Where the tasks of ``txt2sql`` and their databases come from: the embedded world, or files."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envgym.env import Split
from envgym.errors import SetupError
from envgym.messages import Task
from envgym.sql.layouts import database_folder, find_database, load_tasks
from envgym.sql.perturb import check_size
from envgym.worlds.databases import make_world

EVAL_SHARE = 5  # one database of five is for evaluation where no task file is


@dataclass(frozen=True, slots=True)
class TaskSource:
    """Tasks by split, and the folders that their databases lie in."""

    tasks: Mapping[Split, tuple[Task, ...]]
    folders: tuple[Path, ...]

    def database(self, task: Task) -> Path:
        """The database of a task, also of one that was made by hand.

        Raises:
            SetupError: if there is none, or if its name is a path.
        """
        db_id, collection = str(task.data.get("db_id", "")), str(task.data.get("collection", ""))
        for folder in self.folders[:-1]:
            try:
                return find_database(folder, db_id, collection)
            except SetupError:
                continue  # the last folder's error is the one to show
        return find_database(self.folders[-1], db_id, collection)


@lru_cache(maxsize=4)
def embedded_source(seed: int) -> TaskSource:
    """The embedded databases of this seed."""
    world = make_world(seed)
    return TaskSource(world.tasks, (world.folder,))


@lru_cache(maxsize=16)
def file_source(
    tasks: str, eval_tasks: str | None, databases: str | None, layout: str, perturb: bool = False
) -> TaskSource:
    """Tasks from files or datasets, with their databases.

    Raises:
        SetupError: if a file, a field or a database is missing or wrong, if a split would be empty, or if a
            database is too large to ``perturb``.
    """
    sources = [tasks] if eval_tasks is None else [tasks, eval_tasks]
    loaded = [load_tasks(source, layout) for source in sources]
    named = Path(databases).expanduser().resolve() if databases is not None else None
    folders = tuple(dict.fromkeys(named or database_folder(source) for source in sources))
    splits: Mapping[Split, tuple[Task, ...]] = {"train": loaded[0], "eval": loaded[-1]}
    source = TaskSource(splits if eval_tasks else _divide(tasks, loaded[0]), folders)
    for task in {(task.data["collection"], task.data["db_id"]): task for part in loaded for task in part}.values():
        database = source.database(task)  # what is missing or too large is reported now
        if perturb:
            check_size(database)
    return source


def _divide(source: str, tasks: tuple[Task, ...]) -> dict[Split, tuple[Task, ...]]:
    """Divide tasks by the names of their databases, so that no schema is in both splits."""
    split: dict[Split, tuple[Task, ...]] = {
        "train": tuple(task for task in tasks if not _is_for_evaluation(task)),
        "eval": tuple(task for task in tasks if _is_for_evaluation(task)),
    }
    if not all(split.values()):
        raise SetupError(f"the databases of {source} are too few to divide into train and eval; name eval_tasks")
    return split


def _is_for_evaluation(task: Task) -> bool:
    return hashlib.sha256(task.data["db_id"].encode()).digest()[0] % EVAL_SHARE == 0
