"""The process that runs queries: one line of JSON in, one line out, until its input closes.

It defends itself in layers. The database is opened read-only and immutable, so SQLite writes nothing beside it. An
authorizer refuses what is not reading. SQLite's limits refuse huge strings at once. A progress handler interrupts
at the deadline; where SQLite is deep inside C code and does not call it, the kernel's alarm ends the process a
moment later. ``setrlimit`` bounds memory and forbids writing files.

Standard library only: a fresh worker starts in some 20 ms.
"""

import os
import resource
import signal
import sqlite3
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

from envgym.sql.authorizer import READABLE_PRAGMAS, ReadOnlyAuthorizer
from envgym.sql.clock import FrozenClock
from envgym.sql.table import Caps, Cell, Failure, Query, Row, Table
from envgym.sql.wire import READY, Broken, decode_query, encode_answer

ADDRESS_SPACE_BYTES = 448 * 2**20  # the worker stays under 512 MiB, its code included
HEAP_BYTES = 256 * 2**20  # SQLite's own share: beyond it a query gets "out of memory"
VALUE_BYTES = 16 * 2**20  # the longest text or blob that SQLite builds
ALARM_GRACE_S = 0.3  # from the polite interrupt to the kill
NUMBER_CHARACTERS = 8  # what a number or NULL counts towards the total
MESSAGE_CHARACTERS = 300
OPEN_CONNECTIONS = 16
STEPS_BETWEEN_LOOKS = 5_000  # steps of SQLite's machine between looks at the clock: well under a millisecond
_LONG = (str, bytes)
_VIRTUAL_TABLES = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"

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
        self._open_virtual_tables()
        self.clock.install(connection)
        connection.set_authorizer(self.authorizer)

    def _open_virtual_tables(self) -> None:
        """Open what may be read before the authorizer is set: SQLite declares them by what looks like a write."""
        for name in ["json_each", "json_tree", *(f"pragma_{pragma}" for pragma in sorted(READABLE_PRAGMAS))]:
            self.connection.execute(f"SELECT 1 FROM {name} LIMIT 0")
        for (name,) in self.connection.execute(_VIRTUAL_TABLES).fetchall():
            quoted = name.replace('"', '""')
            with suppress(sqlite3.Error):  # of a module that this SQLite lacks; queries on it say so
                self.connection.execute(f'SELECT 1 FROM "{quoted}" LIMIT 1').fetchall()

    def start(self, query: Query) -> None:
        """Forget the query before, and interrupt this one at its deadline."""
        self.authorizer.denied = None
        self.clock.restart(query.now, query.seed)
        deadline = time.monotonic() + query.seconds
        self.connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_BETWEEN_LOOKS)


def main() -> None:
    """Serve queries until standard input closes."""
    _bound_this_process()
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    sessions: OrderedDict[str, _Session] = OrderedDict()
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(_serve(sessions, decode_query(line)))
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


def _serve(sessions: "OrderedDict[str, _Session]", query: Query) -> bytes:
    """Answer one query. The alarm is left running until the answer is written."""
    signal.setitimer(signal.ITIMER_REAL, query.seconds + ALARM_GRACE_S)
    try:
        return encode_answer(_answer(sessions, query))
    except MemoryError:
        return encode_answer(Failure(kind="memory", message="the query needs too much memory"))


def _answer(sessions: "OrderedDict[str, _Session]", query: Query) -> Table | Failure | Broken:
    try:
        session = _session(sessions, query.path)
    except sqlite3.Error as error:
        return Broken(reason=f"cannot open {query.path}: {error}")
    try:
        session.start(query)
        return _fetch(session.connection, query, session.clock)
    except MemoryError:
        raise
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # ValueError: NUL or a surrogate inside
        return _explain(session, query, error)
    except Exception:  # the border of a process: what is unforeseen is reported to the owner, not lost
        return Broken(reason=traceback.format_exc())


def _session(sessions: "OrderedDict[str, _Session]", path: str) -> _Session:
    """The open database, from a cache of the most recently used ones."""
    session = sessions.pop(path, None) or _Session(path)
    sessions[path] = session
    if len(sessions) > OPEN_CONNECTIONS:
        sessions.popitem(last=False)[1].connection.close()
    return session


def _fetch(connection: sqlite3.Connection, query: Query, clock: FrozenClock) -> Table | Failure:
    caps = query.caps
    cursor = connection.execute(query.sql)
    try:
        if cursor.description is None:
            return Failure(kind="error", message="the statement returns no table")
        names = [_clip_text(column[0], caps.cell_characters) for column in cursor.description]
        rows, more_rows, cut_cells = _take_rows(cursor, caps)
    finally:
        cursor.close()
    return Table(
        columns=tuple(names[: caps.columns]),
        rows=rows,
        more_rows=more_rows,
        hidden_columns=max(0, len(names) - caps.columns),
        cut_cells=cut_cells,
        reads_clock=clock.was_read,
    )


def _take_rows(cursor: Iterator[Row], caps: Caps) -> tuple[tuple[Row, ...], bool, int]:
    """The rows within the caps, whether more followed, and the number of cells that were cut."""
    rows: list[Row] = []
    characters = cut_cells = 0
    for row in cursor:
        if len(rows) == caps.rows or characters > caps.total_characters:
            return tuple(rows), True, cut_cells
        shown = row[: caps.columns]
        lengths = [len(cell) for cell in shown if isinstance(cell, _LONG)]
        characters += sum(lengths) + NUMBER_CHARACTERS * (len(shown) - len(lengths))
        if lengths and max(lengths) > caps.cell_characters:
            shown = tuple(_clip(cell, caps.cell_characters) for cell in shown)
            cut_cells += sum(length > caps.cell_characters for length in lengths)
        rows.append(shown)
    return tuple(rows), False, cut_cells


def _clip(cell: Cell, longest: int) -> Cell:
    if isinstance(cell, str):
        return _clip_text(cell, longest)
    return cell[:longest] if isinstance(cell, bytes) else cell


def _clip_text(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def _explain(session: _Session, query: Query, error: Exception) -> Failure | Broken:
    """Whose fault an error is, and how to say it to the model."""
    code = error.sqlite_errorcode & 0xFF if isinstance(error, sqlite3.Error) and _has_code(error) else 0
    if code in _BROKEN_CODES:
        return Broken(reason=f"cannot read {query.path}: {error}")
    if code == sqlite3.SQLITE_INTERRUPT:
        return Failure(kind="timeout", message="the query took too long")
    if session.authorizer.denied:
        return Failure(kind="denied", message=f"{session.authorizer.denied} is not allowed here")
    if code == sqlite3.SQLITE_READONLY:
        return Failure(kind="denied", message="writing is not allowed here")
    return Failure(kind="error", message=_clip_text(str(error), MESSAGE_CHARACTERS))


def _has_code(error: sqlite3.Error) -> bool:
    """Errors of the Python module itself, such as two statements at once, carry no code of SQLite's."""
    return hasattr(error, "sqlite_errorcode")


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
