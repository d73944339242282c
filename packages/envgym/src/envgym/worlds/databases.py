"""The embedded world of the ``txt2sql`` env: small databases with questions and gold queries.

Subjects are in ``database_schemas``, questions in ``database_questions``. Each subject comes as several databases
with rows of their own. The world is written once as SQLite files into the user's cache folder and shared by all
processes; what it holds follows from the seed.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from envgym.cache import cache_folder, make_once
from envgym.env import Split
from envgym.messages import Task
from envgym.worlds.database_questions import Question, RowsOf, ask
from envgym.worlds.database_schemas import SUBJECTS, Entity, Subject

VERSION = 1  # raise it whenever the same seed gives another world: worlds are cached on disk
DATABASES_PER_SUBJECT = 5
_TASK_FILE = "tasks.jsonl"
_STARTS = (
    "Ba",
    "Cor",
    "Del",
    "Fen",
    "Gal",
    "Hol",
    "Jor",
    "Kel",
    "Lum",
    "Mar",
    "Nor",
    "Pel",
    "Ros",
    "Sal",
    "Tor",
    "Vel",
)
_MIDDLES = ("a", "e", "i", "o", "u", "an", "er", "il", "or", "un")
_ENDS = ("ba", "den", "fa", "go", "lin", "mo", "ra", "sen", "ta", "vik")


@dataclass(frozen=True, slots=True)
class World:
    """Where the databases are, and tasks by split.

    ``Task.data`` holds ``question``, ``kind`` and ``db_id``; ``Task.answer`` holds ``golds``.
    """

    folder: Path
    tasks: Mapping[Split, tuple[Task, ...]]


@lru_cache(maxsize=4)
def make_world(seed: int = 0) -> World:
    """Load the world of this seed, written to the cache first if it is not there.

    Raises:
        SetupError: if the cache folder cannot be written.
    """
    folder = cache_folder() / "databases" / f"{VERSION}-{seed}"
    make_once(folder, lambda aside: _write_world(aside, seed))
    with (folder / _TASK_FILE).open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return World(folder=folder, tasks={split: tuple(_tasks(records, split)) for split in SUBJECTS})


def _tasks(records: Sequence[dict[str, str]], split: Split) -> Iterator[Task]:
    chosen = [record for record in records if record["split"] == split]
    for number, record in enumerate(chosen):
        data = {"question": record["text"], "kind": record["kind"], "db_id": record["db_id"]}
        yield Task(id=f"{split}-{number}", data=data, answer={"golds": (record["gold"],)})


def _write_world(folder: Path, seed: int) -> None:
    lines: list[str] = []
    subjects: list[tuple[Split, Subject]] = [(split, one) for split, many in SUBJECTS.items() for one in many]
    for place, (split, subject) in enumerate(subjects):
        for number in range(DATABASES_PER_SUBJECT):
            db_id = f"{subject.name}_{number + 1}"
            rng = np.random.default_rng([seed, place, number])
            questions = _write_database(folder / f"{db_id}.sqlite", subject, rng)
            lines += [_line(question, db_id, split) for question in questions]
    (folder / _TASK_FILE).write_text("".join(lines), encoding="utf-8")


def _line(question: Question, db_id: str, split: Split) -> str:
    return json.dumps({"split": split, "db_id": db_id, **asdict(question)}) + "\n"


def _write_database(path: Path, subject: Subject, rng: np.random.Generator) -> list[Question]:
    """Write one database and return the questions that it can answer."""
    rows = _draw_rows(subject, rng)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # a cache need not survive a power cut
        for entity in subject.entities:
            connection.execute(_create_statement(entity, subject.owner(entity)))
            marks = ", ".join("?" * len(rows[entity.one][0]))
            cells = [tuple(row.values()) for row in rows[entity.one]]
            connection.executemany(f"INSERT INTO {entity.one} VALUES ({marks})", cells)
        connection.commit()
        return [question for question in ask(subject, rows, rng) if _is_answered(connection, question)]


def _create_statement(entity: Entity, owner: Entity | None) -> str:
    columns = ["id INTEGER PRIMARY KEY", "name TEXT NOT NULL UNIQUE"]
    if owner is not None:
        columns.append(f"{owner.one}_id INTEGER NOT NULL REFERENCES {owner.one} (id)")
    columns.append(f"{entity.category.column} TEXT NOT NULL")
    columns += [f"{measure.column} INTEGER NOT NULL" for measure in entity.measures]
    return f"CREATE TABLE {entity.one} ({', '.join(columns)})"


def _draw_rows(subject: Subject, rng: np.random.Generator) -> RowsOf:
    names = _draw_names(rng)
    rows: dict[str, list[dict[str, str | int]]] = {}
    for entity in subject.entities:
        owner = subject.owner(entity)
        measured = {
            measure.column: rng.choice(np.arange(measure.low, measure.high + 1), size=entity.rows, replace=False)
            for measure in entity.measures
        }
        rows[entity.one] = [
            {
                "id": number + 1,
                "name": next(names),
                **({f"{owner.one}_id": int(rng.integers(1, owner.rows + 1))} if owner else {}),
                entity.category.column: str(rng.choice(entity.category.values)),
                **{column: int(values[number]) for column, values in measured.items()},
            }
            for number in range(entity.rows)
        ]
    return rows


def _draw_names(rng: np.random.Generator) -> Iterator[str]:
    """Invented names, each once."""
    for index in rng.permutation(len(_STARTS) * len(_MIDDLES) * len(_ENDS)):
        rest, end = divmod(int(index), len(_ENDS))
        start, middle = divmod(rest, len(_MIDDLES))
        yield _STARTS[start] + _MIDDLES[middle] + _ENDS[end]


def _is_answered(connection: sqlite3.Connection, question: Question) -> bool:
    """Whether the gold gives something: neither no row, nor nothing but NULL or zero."""
    rows = connection.execute(question.gold).fetchall()
    return any(cell for row in rows for cell in row)
