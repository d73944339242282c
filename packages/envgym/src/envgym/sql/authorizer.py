"""What a query may do: read tables, call harmless functions, ask for the schema. Everything else is denied.

Standard library only, since the worker process imports it.
"""

import sqlite3

_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
READABLE_PRAGMAS = frozenset(
    {"table_info", "table_xinfo", "table_list", "foreign_key_list", "index_list", "index_info", "index_xinfo"}
)
_INNER_PRAGMAS = frozenset({"data_version", "page_size"})  # what full-text tables ask for behind the scenes
_FORBIDDEN_FUNCTIONS = frozenset(
    {"load_extension", "fts3_tokenizer", "randomblob", "readfile", "writefile", "edit", "zipfile", "fsdir"}
)
_FORBIDDEN_TABLES = frozenset(
    {"sqlite_stmt", "sqlite_dbpage", "dbstat", "sqlite_memstat", "bytecode", "tables_used"}
)
_SCHEMA_TABLES = frozenset({"sqlite_master", "sqlite_temp_master"})

_VERBS = {
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_DETACH: "DETACH",
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
    sqlite3.SQLITE_TRANSACTION: "a transaction",
    sqlite3.SQLITE_SAVEPOINT: "SAVEPOINT",
    sqlite3.SQLITE_ANALYZE: "ANALYZE",
    sqlite3.SQLITE_REINDEX: "REINDEX",
    sqlite3.SQLITE_ALTER_TABLE: "ALTER TABLE",
}


class ReadOnlyAuthorizer:
    """SQLite's authorizer callback: allows what is listed, denies the rest and remembers what it denied."""

    def __init__(self) -> None:
        self.denied: str | None = None
        """What the last query was denied, in words. The worker clears it before each query."""

    def __call__(
        self, action: int, first: str | None, second: str | None, _schema: str | None, _source: str | None
    ) -> int:
        """Allow or deny one step of a statement, while SQLite compiles it."""
        refused = _refuse(action, first or "", second or "")
        if refused is None:
            return sqlite3.SQLITE_OK
        self.denied = self.denied or refused
        return sqlite3.SQLITE_DENY


def _refuse(action: int, first: str, second: str) -> str | None:
    """The name of what is refused, or None where the step is allowed."""
    if action == sqlite3.SQLITE_READ:
        return f"the table {first}" if _is_forbidden_table(first.lower()) else None
    if action in _READING:
        return None
    if action == sqlite3.SQLITE_FUNCTION:
        return f"the function {second}" if second.lower() in _FORBIDDEN_FUNCTIONS else None
    if action == sqlite3.SQLITE_PRAGMA:
        return None if first.lower() in READABLE_PRAGMAS | _INNER_PRAGMAS else f"PRAGMA {first}"
    if first.lower() in _SCHEMA_TABLES or action not in _VERBS:  # also how SQLite opens tables of its own
        return "changing the schema or looking into SQLite's own tables"
    return _VERBS[action]


def _is_forbidden_table(name: str) -> bool:
    if name.startswith("pragma_"):
        return name.removeprefix("pragma_") not in READABLE_PRAGMAS
    return name in _FORBIDDEN_TABLES
