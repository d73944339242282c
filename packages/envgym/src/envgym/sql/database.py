"""Opening a database for envgym's own, trusted reading. What a model wrote runs in a worker instead."""

import sqlite3
from pathlib import Path
from urllib.parse import quote

from envgym.errors import SetupError

OLDEST_SQLITE = (3, 37)  # PRAGMA table_list


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open a SQLite file without locking it or writing anything beside it.

    Raises:
        SetupError: if it is not a SQLite file, if a part of it lies in a write-ahead log, or if SQLite is too old.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise SetupError(f"this Python has SQLite {sqlite3.sqlite_version}; databases need SQLite 3.37 or newer")
    if not path.is_file():
        raise SetupError(f"{path} is not a file")
    log = path.with_name(path.name + "-wal")
    if log.is_file() and log.stat().st_size:
        raise SetupError(f"{path} has changes in {log.name}; run 'PRAGMA wal_checkpoint(TRUNCATE)' on it first")
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, isolation_level=None)
    connection.text_factory = decode
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise SetupError(f"{path} is not a readable SQLite database: {error}") from error
    return connection


def decode(raw: bytes) -> str:
    """Text as a database holds it; what is not UTF-8 becomes U+FFFD."""
    return raw.decode("utf-8", "replace")


def quote_name(name: str) -> str:
    """A name in double quotes, as any table or column may need it.

    >>> quote_name("Order Details")
    '"Order Details"'
    """
    return '"' + name.replace('"', '""') + '"'
