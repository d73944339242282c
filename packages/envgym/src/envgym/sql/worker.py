"""The process that runs queries: one line of JSON in, one line out, until its input closes.

It defends itself in layers. The database is opened read-only and immutable, so SQLite writes nothing beside it. An
authorizer refuses what is not reading. SQLite's limits refuse huge strings at once. A progress handler interrupts
at the deadline; where SQLite is deep inside C code and does not call it, the kernel's alarm ends the process a
moment later. ``setrlimit`` bounds memory and forbids writing files.

Standard library only: a fresh worker starts in some 20 ms.
"""

import json
import os
import resource
import signal
import sqlite3
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from envgym.sql.authorizer import READABLE_PRAGMAS, ReadOnlyAuthorizer
from envgym.sql.clock import FrozenClock
from envgym.sql.table import Caps, Cell

ADDRESS_SPACE_BYTES = 448 * 2**20  # the worker stays under 512 MiB, its code included
HEAP_BYTES = 256 * 2**20  # SQLite's own share: beyond it a query gets "out of memory"
VALUE_BYTES = 16 * 2**20  # the longest text or blob that SQLite builds
ALARM_GRACE_S = 0.4  # from the polite interrupt to the kill
NUMBER_CHARACTERS = 8  # what a number or NULL counts towards the total
MESSAGE_CHARACTERS = 300
OPEN_CONNECTIONS = 16

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 2 * 2**20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# What these say is about the file or the machine, never about the query.
_BROKEN_CODES = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PROTOCOL,
    }
)


class _Session:
    """An open database with its guards."""

    def __init__(self, path: str) -> None:
        uri = f"file:{quote(path)}?mode=ro&immutable=1"
        self.connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        self.connection.text_factory = _decode
        self.authorizer = ReadOnlyAuthorizer()
        self.clock = FrozenClock()
        self._prepare()

    def _prepare(self) -> None:
        connection = self.connection
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA hard_heap_limit = {HEAP_BYTES}")
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        self._open_readable_virtual_tables()
        self.clock.install(connection)
        connection.set_authorizer(self.authorizer)

    def _open_readable_virtual_tables(self) -> None:
        """Open them once before the authorizer is set: SQLite declares them by what looks like a write."""
        for name in ["json_each", "json_tree", *(f"pragma_{pragma}" for pragma in sorted(READABLE_PRAGMAS))]:
            self.connection.execute(f"SELECT 1 FROM {name} LIMIT 0")

    def reverse_scans(self, on: bool) -> None:
        self.authorizer.enabled = False
        self.connection.execute(f"PRAGMA reverse_unordered_selects = {int(on)}")
        self.authorizer.enabled = True


def main() -> None:
    """Serve queries until standard input closes."""
    _bound_this_process()
    sessions: OrderedDict[str, _Session] = OrderedDict()
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(_serve(sessions, json.loads(line)))
        sys.stdout.buffer.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def _bound_this_process() -> None:
    os.environ["TZ"] = "UTC"  # 'localtime' must mean the same on every machine
    time.tzset()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the owner is gone: end without a word
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that owns the worker


def _serve(sessions: "OrderedDict[str, _Session]", request: dict[str, Any]) -> bytes:
    """Answer one request; the alarm is left running until the answer is written."""
    signal.setitimer(signal.ITIMER_REAL, request["seconds"] + ALARM_GRACE_S)
    try:
        return _encode(_answer(sessions, request))
    except MemoryError:
        return _encode({"failure": "memory", "message": "the query needs too much memory"})


def _answer(sessions: "OrderedDict[str, _Session]", request: dict[str, Any]) -> dict[str, Any]:
    try:
        session = _session(sessions, request["path"])
    except sqlite3.Error as error:
        return {"broken": f"cannot open the database: {error}"}
    try:
        return _run(session, request)
    except MemoryError:
        raise
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # ValueError: NUL or a surrogate inside
        return _explain(session, error)
    except Exception:  # the border of a process: what is unforeseen is reported to the owner, not lost
        return {"broken": traceback.format_exc()}


def _session(sessions: "OrderedDict[str, _Session]", path: str) -> _Session:
    """The open database, from a cache of the most recently used ones."""
    session = sessions.pop(path, None) or _Session(path)
    sessions[path] = session
    if len(sessions) > OPEN_CONNECTIONS:
        sessions.popitem(last=False)[1].connection.close()
    return session


def _run(session: _Session, request: dict[str, Any]) -> dict[str, Any]:
    session.authorizer.denied = None
    session.clock.restart(request["now"], request["seed"])
    deadline = time.monotonic() + request["seconds"]
    session.connection.set_progress_handler(lambda: time.monotonic() > deadline, 5_000)
    if not request["reverse_scan"]:
        return _fetch(session, request["sql"], Caps(**request["caps"]))
    session.reverse_scans(True)
    try:
        return _fetch(session, request["sql"], Caps(**request["caps"]))
    finally:
        session.reverse_scans(False)


def _fetch(session: _Session, sql: str, caps: Caps) -> dict[str, Any]:
    cursor = session.connection.execute(sql)
    try:
        if cursor.description is None:
            return {"failure": "error", "message": "the statement returns no table"}
        names = [_clip_text(column[0], caps.cell_characters) for column in cursor.description]
        rows, more_rows, cut_cells = _take_rows(cursor, caps)
    finally:
        cursor.close()
    return {
        "columns": names[: caps.columns],
        "rows": rows,
        "more_rows": more_rows,
        "hidden_columns": max(0, len(names) - caps.columns),
        "cut_cells": cut_cells,
        "reads_clock": session.clock.was_read,
    }


def _take_rows(cursor: Iterator[tuple[Cell, ...]], caps: Caps) -> tuple[list[list[Cell]], bool, int]:
    """The rows within the caps, whether more followed, and the number of cells that were cut."""
    rows: list[list[Cell]] = []
    characters = cut_cells = 0
    for row in cursor:
        if len(rows) == caps.rows or characters > caps.total_characters:
            return rows, True, cut_cells
        kept = list(row[: caps.columns])
        for index, cell in enumerate(kept):
            length = len(cell) if isinstance(cell, str | bytes) else NUMBER_CHARACTERS
            if length > caps.cell_characters and isinstance(cell, str | bytes):
                kept[index] = _clip(cell, caps.cell_characters)
                cut_cells += 1
            characters += min(length, caps.cell_characters)
        rows.append(kept)
    return rows, False, cut_cells


def _clip(cell: str | bytes, longest: int) -> Cell:
    return _clip_text(cell, longest) if isinstance(cell, str) else cell[:longest]


def _clip_text(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _explain(session: _Session, error: Exception) -> dict[str, Any]:
    """Whose fault an error is, and how to say it to the model."""
    code = error.sqlite_errorcode & 0xFF if isinstance(error, sqlite3.Error) and _has_code(error) else 0
    if code in _BROKEN_CODES:
        return {"broken": f"the database cannot be read: {error}"}
    if code == sqlite3.SQLITE_INTERRUPT:
        return {"failure": "timeout", "message": "the query took too long"}
    if session.authorizer.denied:
        return {"failure": "denied", "message": f"{session.authorizer.denied} is not allowed here"}
    if code == sqlite3.SQLITE_READONLY:
        return {"failure": "denied", "message": "writing is not allowed here"}
    return {"failure": "error", "message": _clip_text(str(error), MESSAGE_CHARACTERS)}


def _has_code(error: sqlite3.Error) -> bool:
    """Errors of the Python module itself, such as two statements at once, carry no code of SQLite's."""
    return hasattr(error, "sqlite_errorcode")


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _encode(reply: dict[str, Any]) -> bytes:
    return json.dumps(reply, default=_encode_blob, ensure_ascii=False).encode() + b"\n"


def _encode_blob(value: object) -> dict[str, str]:
    if not isinstance(value, bytes):
        raise TypeError(f"a cell of type {type(value).__name__} has no place in a result")
    return {"blob": value.hex()}
