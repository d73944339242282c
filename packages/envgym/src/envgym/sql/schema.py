"""The schema of a database: what tables, columns and keys there are, and what it looks like in a prompt."""

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envgym.sql.database import open_read_only, quote_name
from envgym.sql.table import Cell

_ROWS_SAMPLED = 200
_SAMPLE_CHARACTERS = 40
_SIMPLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# fmt: off
_RESERVED = frozenset([
    "add", "all", "alter", "and", "as", "autoincrement", "between", "by", "case", "check", "collate", "column",
    "commit", "constraint", "create", "cross", "current_date", "current_time", "current_timestamp", "default",
    "delete", "desc", "distinct", "drop", "else", "end", "escape", "except", "exists", "for", "foreign", "from",
    "full", "group", "having", "if", "in", "index", "inner", "insert", "intersect", "into", "is", "isnull",
    "join", "key", "left", "limit", "match", "natural", "not", "notnull", "null", "of", "offset", "on", "or",
    "order", "outer", "over", "plan", "primary", "query", "references", "regexp", "replace", "right", "row",
    "rows", "select", "set", "table", "temp", "then", "to", "transaction", "trigger", "union", "unique",
    "update", "using", "values", "view", "virtual", "when", "where", "with", "without",
])
# fmt: on


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of a table or view."""

    name: str
    type: str
    """As declared, possibly empty."""
    not_null: bool
    key: int
    """Its place in the primary key, from 1; 0 where it has none."""
    generated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignKey:
    """Columns that refer to columns of another table."""

    columns: tuple[str, ...]
    table: str
    targets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSchema:
    """A table or a view."""

    name: str
    is_view: bool
    columns: tuple[Column, ...]
    foreign_keys: tuple[ForeignKey, ...]

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key, in its order."""
        return tuple(column.name for column in sorted(self.columns, key=lambda c: c.key) if column.key)


def read_schema(connection: sqlite3.Connection) -> tuple[TableSchema, ...]:
    """Tables and views in the order of their creation, without SQLite's own and virtual tables' inner ones."""
    listed = connection.execute("SELECT name, type FROM pragma_table_list WHERE schema = 'main'").fetchall()
    kinds = {name: kind for name, kind in listed if kind in ("table", "view", "virtual")}
    created = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid")
    names = [name for (name,) in created if name in kinds and not name.startswith("sqlite_")]
    schemas = {name: _read_table(connection, name, kinds[name] == "view") for name in names}
    return tuple(_fill_in_targets(schema, schemas) for schema in schemas.values())


def _read_table(connection: sqlite3.Connection, name: str, is_view: bool) -> TableSchema:
    columns = tuple(
        Column(name=column, type=kind, not_null=bool(not_null), key=key, generated=hidden in (2, 3))
        for column, kind, not_null, key, hidden in connection.execute(
            'SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?) WHERE hidden <> 1', (name,)
        )
    )
    keys: dict[int, list[tuple[str, str, str | None]]] = {}
    for number, table, column, target in connection.execute(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq', (name,)
    ):
        keys.setdefault(number, []).append((table, column, target))
    foreign_keys = tuple(
        ForeignKey(
            table=parts[0][0],
            columns=tuple(column for _, column, _ in parts),
            targets=tuple(target for _, _, target in parts if target is not None),
        )
        for parts in keys.values()
    )
    return TableSchema(name=name, is_view=is_view, columns=columns, foreign_keys=foreign_keys)


def _fill_in_targets(schema: TableSchema, schemas: dict[str, TableSchema]) -> TableSchema:
    """Write out the primary key where a foreign key names only a table. Keys to tables that are not there go."""
    by_lower = {name.lower(): table for name, table in schemas.items()}
    filled = tuple(
        ForeignKey(
            columns=key.columns,
            table=by_lower[key.table.lower()].name,
            targets=key.targets or by_lower[key.table.lower()].primary_key,
        )
        for key in schema.foreign_keys
        if key.table.lower() in by_lower
    )
    return TableSchema(name=schema.name, is_view=schema.is_view, columns=schema.columns, foreign_keys=filled)


@lru_cache(maxsize=512)
def describe_database(path: Path, samples: int = 0) -> str:
    """The schema as CREATE statements, with ``samples`` values behind each column.

    Raises:
        SetupError: if the file is not a readable SQLite database.
    """
    with closing(open_read_only(path)) as connection:
        return "\n\n".join(_describe_table(connection, table, samples) for table in read_schema(connection))


@lru_cache(maxsize=512)
def table_names(path: Path) -> tuple[str, ...]:
    """The names of a database's tables and views.

    Raises:
        SetupError: if the file is not a readable SQLite database.
    """
    with closing(open_read_only(path)) as connection:
        return tuple(table.name for table in read_schema(connection))


def _describe_table(connection: sqlite3.Connection, table: TableSchema, samples: int) -> str:
    values = _sample_values(connection, table, samples)
    lines = [(_describe_column(column, table), values.get(column.name, "")) for column in table.columns]
    if len(table.primary_key) > 1:
        lines.append((f"PRIMARY KEY ({_join(table.primary_key)})", ""))
    for key in table.foreign_keys:
        target = f"{show_name(key.table)} ({_join(key.targets)})"
        lines.append((f"FOREIGN KEY ({_join(key.columns)}) REFERENCES {target}", ""))
    commas = [","] * (len(lines) - 1) + [""]
    body = "\n".join(f"  {text}{comma}{note}" for (text, note), comma in zip(lines, commas, strict=True))
    return f"CREATE {'VIEW' if table.is_view else 'TABLE'} {show_name(table.name)} (\n{body}\n)"


def _describe_column(column: Column, table: TableSchema) -> str:
    words = [show_name(column.name), column.type.upper()]
    if table.primary_key == (column.name,):
        words.append("PRIMARY KEY")
    elif column.not_null:
        words.append("NOT NULL")
    return " ".join(word for word in words if word)


def _sample_values(connection: sqlite3.Connection, table: TableSchema, samples: int) -> dict[str, str]:
    """For each column a comment with its first few different values, taken from the table's first rows."""
    if not samples or not table.columns:
        return {}
    columns = ", ".join(quote_name(column.name) for column in table.columns)
    rows = connection.execute(f"SELECT {columns} FROM {quote_name(table.name)} LIMIT {_ROWS_SAMPLED}").fetchall()
    notes: dict[str, str] = {}
    for column, cells in zip(table.columns, zip(*rows, strict=True), strict=bool(rows)):
        distinct = list(dict.fromkeys(cell for cell in cells if cell is not None))[:samples]
        if distinct:
            notes[column.name] = " -- e.g. " + ", ".join(_show_value(cell) for cell in distinct)
    return notes


def _show_value(cell: Cell) -> str:
    if isinstance(cell, bytes):
        return f"a blob of {len(cell)} bytes"
    if not isinstance(cell, str):
        return str(cell)
    text = " ".join(cell.split()).replace("'", "''")
    return f"'{text}'" if len(text) <= _SAMPLE_CHARACTERS else f"'{text[:_SAMPLE_CHARACTERS]}…'"


def _join(names: tuple[str, ...]) -> str:
    return ", ".join(show_name(name) for name in names)


def show_name(name: str) -> str:
    """A name as a query has to write it: quoted where it must be.

    >>> show_name("city"), show_name("Order Details"), show_name("Order")
    ('city', '"Order Details"', '"Order"')
    """
    return name if _SIMPLE_NAME.match(name) and name.lower() not in _RESERVED else quote_name(name)
