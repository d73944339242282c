"""Tasks and databases as public text-to-SQL collections lay them out, found by path.

======== ================================================================ =====================================
layout   a record of the task file                                        a database, in the database folder
======== ================================================================ =====================================
spider   ``question``, ``query``, ``db_id``                               ``<db_id>/<db_id>.sqlite``
bird     ``question``, ``SQL``, ``db_id``, ``evidence``                   ``<db_id>/<db_id>.sqlite``
skyrl    ``prompt`` (messages), ``reward_spec``, ``db_id``, ``data``      below the folder that ``data`` stands for
defog    ``question``, ``golds`` or ``query`` (with ``;``), ``db_name``   ``<db_name>.db``
======== ================================================================ =====================================

Tasks come from JSON, JSON lines or CSV, by the file's ending, or from a dataset (see ``envgym.task_dataset``).
Unless it is named, the database folder is the one beside the task file that is called ``database`` or
``databases`` or ends in ``_databases``.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from envgym.errors import SetupError
from envgym.json_lines import read_json_lines
from envgym.messages import Task
from envgym.sql.lexer import tokens
from envgym.task_dataset import is_dataset, load_rows

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


def load_tasks(source: str, layout: str = "auto") -> tuple[Task, ...]:
    """Read the tasks of a file or dataset.

    Returns:
        Tasks whose ``data`` has ``question``, ``db_id``, ``evidence`` and ``collection``, and whose ``answer`` has
        ``golds``, the accepted queries.

    Raises:
        SetupError: names the source, the record and the field that is wrong.
    """
    records = list(_records(source))
    if not records:
        raise SetupError(f"{source} holds no tasks")
    reader = _READERS[_check_layout(layout) if layout != "auto" else guess_layout(source, records[0])]
    return tuple(_task(source, number, record, reader) for number, record in enumerate(records))


def _check_layout(layout: str) -> Layout:
    for known in LAYOUTS:
        if layout == known:
            return known
    raise SetupError(f"layout is {layout!r}; it must be auto or one of {', '.join(LAYOUTS)}")


def guess_layout(source: str, record: _Record) -> Layout:
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
    raise SetupError(f"{source}: a record with the fields {fields} fits no layout of {', '.join(LAYOUTS)}")


def _records(source: str) -> Iterator[_Record]:
    path = Path(source).expanduser()
    if path.suffix in _FILE_READERS:
        if not path.is_file():
            raise SetupError(f"there is no task file {path}")
        yield from _FILE_READERS[path.suffix](path)
    elif is_dataset(source):
        rows = load_rows(source)
        yield from (rows[number] for number in range(len(rows)))
    else:
        raise SetupError(
            f"tasks {source!r} is neither a dataset nor a file that ends in {', '.join(_FILE_READERS)}"
        )


def _read_json(path: Path) -> Iterator[_Record]:
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SetupError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, list):
        raise SetupError(f"{path} must hold a list of records")
    for number, record in enumerate(cast("list[object]", found)):
        if not isinstance(record, dict):
            raise SetupError(f"{path}: record {number} is not an object")
        yield cast("_Record", record)


def _read_json_lines(path: Path) -> Iterator[_Record]:
    return (record for _, record in read_json_lines(path, "task file"))


def _read_csv(path: Path) -> Iterator[_Record]:
    with path.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


_FILE_READERS: dict[str, Callable[[Path], Iterator[_Record]]] = {
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".csv": _read_csv,
}


def _task(source: str, number: int, record: _Record, reader: "_Reader") -> Task:
    try:
        question = reader(record)
    except (KeyError, IndexError, TypeError) as error:
        raise SetupError(f"{source}: record {number} lacks a field or has one of another kind: {error}") from error
    if not question.golds:
        raise SetupError(f"{source}: record {number} has no gold query")
    return Task(
        id=f"{Path(source).stem}-{number}",
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
        raise TypeError(f"a {type(value).__name__} stands where text should be")
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


def database_folder(source: str) -> Path:
    """The database folder beside a task file; the task file's own folder where there is none of a known name.

    Raises:
        SetupError: if the tasks are not from a file.
    """
    path = Path(source).expanduser().resolve()
    if not path.exists():
        raise SetupError(f"tasks {source!r} is not a file; name the folder of its databases with env.databases=…")
    folders = sorted(entry for entry in path.parent.iterdir() if entry.is_dir())
    fitting = [entry for entry in folders if entry.name in _FOLDER_NAMES or entry.name.endswith("_databases")]
    return fitting[0] if fitting else path.parent


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
