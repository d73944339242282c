"""Tasks and databases as public text-to-SQL collections lay them out, found by path.

======== ================================================================ =====================================
layout   a record of the task file                                        a database, in the database folder
======== ================================================================ =====================================
spider   ``question``, ``query``, ``db_id``                               ``<db_id>/<db_id>.sqlite``
bird     ``question``, ``SQL``, ``db_id``, ``evidence``                   ``<db_id>/<db_id>.sqlite``
skyrl    ``prompt`` (messages), ``reward_spec``, ``db_id``, ``data``      below the folder that ``data`` stands for
defog    ``question``, ``golds`` or ``query`` (with ``;``), ``db_name``   ``<db_name>.db``
======== ================================================================ =====================================

A task file is JSON, JSON lines, CSV or Parquet, by its ending. Unless it is named, the database folder is the one
beside the task file that is called ``database`` or ``databases`` or ends in ``_databases``.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from envgym.errors import SetupError
from envgym.messages import Task
from envgym.sql.lexer import tokens

Layout = Literal["spider", "bird", "skyrl", "defog"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
SKYRL_FOLDERS = {
    "spider": "spider/database",
    "bird": "bird/train/train_databases",
    "synsql": "SynSQL-2.5M/databases",
}
_FOLDER_NAMES = ("database", "databases")
_FILE_PATTERNS = ("{0}/{0}.sqlite", "{0}.sqlite", "{0}/{0}.db", "{0}.db")

_Record: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    """What all layouts have in common."""

    text: str
    golds: tuple[str, ...]
    db_id: str
    evidence: str = ""
    collection: str = ""
    """A key of ``SKYRL_FOLDERS``, or empty."""


def load_tasks(path: Path, layout: str = "auto") -> tuple[Task, ...]:
    """Read a task file.

    Returns:
        Tasks whose ``data`` has ``question``, ``db_id``, ``evidence`` and ``collection``, and whose ``answer`` has
        ``golds``, the accepted queries.

    Raises:
        SetupError: names the file, the record and the field that is wrong.
    """
    records = list(_records(path))
    if not records:
        raise SetupError(f"{path} holds no tasks")
    reader = _READERS[_check_layout(layout) if layout != "auto" else guess_layout(path, records[0])]
    return tuple(_task(path, number, record, reader) for number, record in enumerate(records))


def _check_layout(layout: str) -> Layout:
    for known in LAYOUTS:
        if layout == known:
            return known
    raise SetupError(f"layout is {layout!r}; it must be auto or one of {', '.join(LAYOUTS)}")


def guess_layout(path: Path, record: _Record) -> Layout:
    """Tell the layout from the fields of the first record."""
    if "reward_spec" in record:
        return "skyrl"
    if "SQL" in record:
        return "bird"
    if "golds" in record or "db_name" in record:
        return "defog"
    if "query" in record:
        return "spider"
    fields = ", ".join(sorted(record))
    raise SetupError(f"{path}: a record with the fields {fields} fits no known layout; see env.layout")


def _records(path: Path) -> Iterator[_Record]:
    readers = {".json": _read_json, ".jsonl": _read_json_lines, ".csv": _read_csv, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise SetupError(f"{path} must end in one of {', '.join(readers)}")
    if not path.is_file():
        raise SetupError(f"there is no task file {path}")
    return readers[path.suffix](path)


def _read_json(path: Path) -> Iterator[_Record]:
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SetupError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, list):
        raise SetupError(f"{path} must hold a list of records")
    yield from found


def _read_json_lines(path: Path) -> Iterator[_Record]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip():
                    yield json.loads(line)
            except ValueError as error:
                raise SetupError(f"{path}:{number} is not JSON: {error}") from error


def _read_csv(path: Path) -> Iterator[_Record]:
    with path.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


def _read_parquet(path: Path) -> Iterator[_Record]:
    try:
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise SetupError(f"reading {path} needs pyarrow: install envgym[datasets]") from error
    yield from parquet.read_table(path).to_pylist()


def _task(path: Path, number: int, record: object, reader: "_Reader") -> Task:
    try:
        question = reader(record)
    except (KeyError, IndexError, TypeError) as error:
        raise SetupError(f"{path}: record {number} lacks a field or has one of another kind: {error}") from error
    if not question.golds:
        raise SetupError(f"{path}: record {number} has no gold query")
    return Task(
        id=f"{path.stem}-{number}",
        data={
            "question": question.text,
            "db_id": question.db_id,
            "evidence": question.evidence,
            "collection": question.collection,
        },
        answer={"golds": question.golds},
    )


def _from_spider(record: Any) -> _Question:
    return _Question(text=_text(record["question"]), golds=(_text(record["query"]),), db_id=_text(record["db_id"]))


def _from_bird(record: Any) -> _Question:
    return _Question(
        text=_text(record["question"]),
        golds=(_text(record["SQL"]),),
        db_id=_text(record["db_id"]),
        evidence=record.get("evidence") or "",
    )


def _from_skyrl(record: Any) -> _Question:
    asked = [message["content"] for message in record["prompt"] if message["role"] == "user"]
    return _Question(
        text=record.get("question") or _text(asked[-1]),
        golds=(_text(record["reward_spec"]["ground_truth"]),),
        db_id=_text(record["db_id"]),
        collection=_text(record["data"]),
    )


def _from_defog(record: Any) -> _Question:
    golds = record.get("golds") or split_statements(record["query"])
    return _Question(
        text=_text(record["question"]),
        golds=tuple(_text(gold) for gold in golds),
        db_id=_text(record.get("db_id") or record["db_name"]),
        evidence=record.get("instructions") or "",
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


_Reader: TypeAlias = Callable[[Any], _Question]
_READERS: dict[Layout, _Reader] = {
    "spider": _from_spider,
    "bird": _from_bird,
    "skyrl": _from_skyrl,
    "defog": _from_defog,
}


def split_statements(sql: str) -> tuple[str, ...]:
    """The statements of a text, without the semicolons between them.

    >>> split_statements("SELECT ';'; SELECT 2;")
    ("SELECT ';'", 'SELECT 2')
    """
    ends = [token.start for token in tokens(sql) if token.value == ";"]
    starts = [0, *(end + 1 for end in ends)]
    parts = (sql[start:end].strip() for start, end in zip(starts, [*ends, len(sql)], strict=True))
    return tuple(part for part in parts if part)


def database_folder(tasks: Path) -> Path:
    """The database folder beside a task file; the task file's own folder where there is none of a known name."""
    folders = sorted(entry for entry in tasks.parent.iterdir() if entry.is_dir())
    fitting = [entry for entry in folders if entry.name in _FOLDER_NAMES or entry.name.endswith("_databases")]
    return fitting[0] if fitting else tasks.parent


def find_database(folder: Path, db_id: str, collection: str = "") -> Path:
    """The file of a database. It lies inside the folder, whatever the name says, and no link leads to it.

    Raises:
        SetupError: for a name that is a path, for a symbolic link, and where there is no such database.
    """
    if not db_id or db_id.startswith(".") or any(sign in db_id for sign in "/\\\0"):
        raise SetupError(f"db_id {db_id!r} must be a plain name, not a path")
    if collection and collection not in SKYRL_FOLDERS:
        raise SetupError(f"data is {collection!r}; the skyrl layout knows {', '.join(SKYRL_FOLDERS)}")
    root = folder.resolve() / SKYRL_FOLDERS.get(collection, "")
    for pattern in _FILE_PATTERNS:
        path = root / pattern.format(db_id)
        if path.is_file():
            if path.resolve() != path:
                raise SetupError(f"{path} is reached through a symbolic link; put the database itself there")
            return path
    raise SetupError(f"there is no database {db_id!r} in {root}")
