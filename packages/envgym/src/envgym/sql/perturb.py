"""Mutated copies of a database: other rows, other values, the same rules.

A query that computes its answer gives another result on such a copy, as the gold does; one that holds its answer
as a constant does not. A copy keeps what a right query may rely on: keys stay unique and still point at rows that
exist, columns without duplicates get none, the texts of a row stay together, and no column gets values of another
kind. What changes:

1. Some rows are deleted, with the rows that refer to them; of large tables most rows.
2. Texts move to other rows, all texts of a row together; so do numbers.
3. Values that repeat in a column change places with each other: all of the one become the other.
4. Numbers of columns that measure something, not codes and truth values, shift a little.
5. In text columns with at least three different texts, a few cells get a word that did not occur.

Stronger copies give some of that up, for golds that no gentler copy tells from their constants.
"""

import hashlib
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from envgym.cache import cache_folder, make_once
from envgym.errors import SetupError
from envgym.sql.database import decode, open_read_only, quote_name
from envgym.sql.link import Link, Rows, find_links, looks_like_key
from envgym.sql.mutation import is_measure, is_numeric, put_new_words, relabel, shift_numbers, trim
from envgym.sql.schema import TableSchema, read_schema
from envgym.sql.table import Cell

VERSION = 1  # raise it whenever the same seed gives another copy: copies are cached on disk
LARGEST_BYTES = 256 * 2**20  # a copy is made in memory
LARGEST_TABLE = 20_000  # rows that a copy keeps of a table, at most
_FILE = "copy.sqlite"


@dataclass(frozen=True, kw_only=True, slots=True)
class Strength:
    """How far a copy is from its original."""

    deleted: float
    """Share of each table's rows, before those that must follow."""
    together: bool = True
    """Whether all texts of a row move together, and all numbers. Otherwise each column moves by itself."""
    redrawn: bool = False
    """Whether cells and links are drawn anew, so that values repeat which did not."""
    trimmed: bool = False
    """Whether blanks around texts go. They hide rows from golds that were written without them."""


# Gentle first: the first copy that tells a gold from its constant is used, and a gentle one is fairer to queries
# that are right in another way than the gold.
STRENGTHS = (
    Strength(deleted=0.15),
    Strength(deleted=0.25),
    Strength(deleted=0.35),
    Strength(deleted=0.2, together=False),
    Strength(deleted=0.5, together=False),
    Strength(deleted=0.0, trimmed=True),
    Strength(deleted=0.1, together=False, redrawn=True),
    Strength(deleted=0.0, together=False, redrawn=True, trimmed=True),
    Strength(deleted=0.7, together=False, redrawn=True),
)


def mutated_copy(database: Path, number: int, seed: int = 0) -> Path:
    """The file of a mutated copy, made at first use and cached under the database's content.

    Args:
        database: the original, which is only read.
        number: which copy, an index of ``STRENGTHS``.
        seed: another seed gives another set of copies.

    Raises:
        SetupError: if the database is too large, or cannot be read or copied.
    """
    name = f"{_content_hash(database, database.stat().st_mtime_ns)}-{VERSION}-{seed}-{number}"
    folder = cache_folder() / "mutated" / name
    make_once(folder, lambda aside: _write_copy(database, number, seed, aside / _FILE))
    return folder / _FILE


def check_size(database: Path) -> None:
    """Refuse a database that is too large to be copied.

    Raises:
        SetupError: names the file and the limit.
    """
    if database.stat().st_size > LARGEST_BYTES:
        limit = LARGEST_BYTES // 2**20
        raise SetupError(f"{database} is larger than {limit} MiB, the most that perturb=true copies; turn it off")


@lru_cache(maxsize=1024)
def _content_hash(database: Path, _modified: int) -> str:
    check_size(database)
    return hashlib.sha256(database.read_bytes()).hexdigest()[:24]


def _write_copy(database: Path, number: int, seed: int, target: Path) -> None:
    with closing(open_read_only(database)) as original, closing(sqlite3.connect(":memory:")) as copy:
        original.backup(copy)
        copy.isolation_level = None
        copy.text_factory = decode
        try:
            mutate(copy, STRENGTHS[number], [seed, number])
            copy.execute("PRAGMA synchronous = OFF")  # a cache need not survive a power cut
            copy.execute("VACUUM INTO ?", (str(target),))
        except sqlite3.Error as error:
            raise SetupError(f"no mutated copy of {database} can be made: {error}; set perturb=false") from error


def mutate(connection: sqlite3.Connection, strength: Strength, seed: Sequence[int]) -> None:
    """Change the rows of an open database in place. The same seed changes the same database in the same way."""
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {quote_name(trigger)}")
    tables = _read_tables(connection)
    links = find_links(tables)
    unique = {name: _unique_columns(connection, rows) for name, rows in tables.items()}
    doomed = _choose_rows(tables, links, strength.deleted, np.random.default_rng([*seed, 1]))
    connection.execute("BEGIN")
    for name, rows in tables.items():
        _delete(connection, rows, doomed[name])
    for name, rows in tables.items():
        rng = np.random.default_rng([*seed, 2, zlib.crc32(name.encode())])
        fixed = unique[name] | _linked_columns(name, links) | set(filter(looks_like_key, rows.columns))
        free = {column: cells for column, cells in rows.columns.items() if column not in fixed}
        new = _new_cells(free, strength, rng)
        if strength.redrawn:
            new |= _redraw_links(tables, name, links, unique[name], rng)
        if strength.trimmed:
            new = {column: trim(cells) for column, cells in (rows.columns | new).items()}
        _update(connection, rows, new)
    connection.execute("COMMIT")


def _read_tables(connection: sqlite3.Connection) -> dict[str, Rows]:
    """Every ordinary table that has rows."""
    listed = connection.execute("SELECT name, wr FROM pragma_table_list WHERE type = 'table' AND schema = 'main'")
    without_rowid = {name: bool(flag) for name, flag in listed}
    schemas = [schema for schema in read_schema(connection) if schema.name in without_rowid]
    tables = {schema.name: _read_rows(connection, schema, without_rowid[schema.name]) for schema in schemas}
    return {name: rows for name, rows in tables.items() if rows.addresses}


def _read_rows(connection: sqlite3.Connection, schema: TableSchema, without_rowid: bool) -> Rows:
    names = [column.name for column in schema.columns if not column.generated]
    taken = {column.name.lower() for column in schema.columns}
    rowid = next(alias for alias in ("rowid", "_rowid_", "oid", "") if alias not in taken)
    key = tuple(quote_name(name) for name in schema.primary_key) if without_rowid else (rowid,)
    picked = ", ".join([*key, *(quote_name(name) for name in names)])
    order = ", ".join(key)
    found = connection.execute(f"SELECT {picked} FROM {quote_name(schema.name)} ORDER BY {order}").fetchall()
    cells = list(zip(*found, strict=True)) or [()] * (len(key) + len(names))
    return Rows(
        schema=schema,
        key=key,
        addresses=[row[: len(key)] for row in found],
        columns={name: list(cells[len(key) + index]) for index, name in enumerate(names)},
    )


def _choose_rows(
    tables: Mapping[str, Rows], links: Sequence[Link], share: float, rng: np.random.Generator
) -> dict[str, set[int]]:
    """The rows to delete from each table, such that no row loses one that it refers to and no table loses all."""
    pointers = [_resolve(tables, link) for link in links]
    kept = {name: {int(rng.integers(len(rows.addresses)))} for name, rows in tables.items()}
    _spread(kept, pointers, upwards=True)
    doomed: dict[str, set[int]] = {}
    for name, rows in tables.items():
        free = [row for row in range(len(rows.addresses)) if row not in kept[name]]
        total = len(rows.addresses)
        count = min(len(free), max(1, round(share * total), total - LARGEST_TABLE))
        doomed[name] = {int(row) for row in rng.choice(free, size=count, replace=False)} if free else set()
    _spread(doomed, pointers, upwards=False)
    return doomed


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pointers:
    """A link, row by row: ``rows[i]`` is the row of ``parent`` that row ``i`` of ``child`` refers to, if any."""

    child: str
    parent: str
    rows: list[int | None]


def _resolve(tables: Mapping[str, Rows], link: Link) -> _Pointers:
    parent, child = tables[link.target], tables[link.table]
    targets = zip(*(parent.columns[name] for name in link.target_columns), strict=True)
    row_of = {cells: row for row, cells in enumerate(targets)}
    sources = zip(*(child.columns[name] for name in link.columns), strict=True)
    return _Pointers(child=link.table, parent=link.target, rows=[row_of.get(cells) for cells in sources])


def _spread(chosen: dict[str, set[int]], pointers: Sequence[_Pointers], upwards: bool) -> None:
    """Add the rows that chosen ones refer to (upwards) or that refer to chosen ones, until all are there."""
    grown = True
    while grown:
        grown = False
        for link in pointers:
            parents, children = chosen[link.parent], chosen[link.child]
            pairs = [(row, target) for row, target in enumerate(link.rows) if target is not None]
            if upwards:
                missing = {target for row, target in pairs if row in children} - parents
                parents |= missing
            else:
                missing = {row for row, target in pairs if target in parents} - children
                children |= missing
            grown = grown or bool(missing)


def _delete(connection: sqlite3.Connection, rows: Rows, doomed: set[int]) -> None:
    """Delete rows from the database and from memory."""
    where = " AND ".join(f"{column} = ?" for column in rows.key)
    statement = f"DELETE FROM {quote_name(rows.schema.name)} WHERE {where}"
    connection.executemany(statement, [rows.addresses[row] for row in sorted(doomed)])
    stay = [row for row in range(len(rows.addresses)) if row not in doomed]
    rows.addresses = [rows.addresses[row] for row in stay]
    rows.columns = {name: [cells[row] for row in stay] for name, cells in rows.columns.items()}


def _unique_columns(connection: sqlite3.Connection, rows: Rows) -> set[str]:
    """Columns of the primary key and of unique indexes."""
    name = rows.schema.name
    columns = set(rows.schema.primary_key)
    indexes = connection.execute('SELECT name FROM pragma_index_list(?) WHERE "unique"', (name,)).fetchall()
    for (index,) in indexes:
        columns |= {column for (column,) in connection.execute("SELECT name FROM pragma_index_info(?)", (index,))}
    return columns


def _linked_columns(table: str, links: Sequence[Link]) -> set[str]:
    """Columns of a table at either end of a link."""
    sources = {column for link in links if link.table == table for column in link.columns}
    return sources | {column for link in links if link.target == table for column in link.target_columns}


def _new_cells(
    columns: Mapping[str, list[Cell]], strength: Strength, rng: np.random.Generator
) -> dict[str, list[Cell]]:
    """The changed cells of columns that may change."""
    numbers = {name: cells for name, cells in columns.items() if is_numeric(cells)}
    texts = {name: cells for name, cells in columns.items() if name not in numbers}
    moved = _move(numbers, strength, rng) | _move(texts, strength, rng)
    return {name: _change(cells, rng) for name, cells in moved.items()}


def _move(
    columns: Mapping[str, list[Cell]], strength: Strength, rng: np.random.Generator
) -> dict[str, list[Cell]]:
    """The cells of columns in a new order of rows: one for all, one for each, or drawn with repetition."""
    moved: dict[str, list[Cell]] = {}
    order: Sequence[int] = ()
    for name, cells in columns.items():
        if strength.redrawn:
            order = [int(row) for row in rng.integers(len(cells), size=len(cells))]
        elif not (order and strength.together):
            order = [int(row) for row in rng.permutation(len(cells))]
        moved[name] = [cells[row] for row in order]
    return moved


def _change(cells: list[Cell], rng: np.random.Generator) -> list[Cell]:
    if is_numeric(cells) and is_measure(cells):
        return shift_numbers(cells, rng)
    repeats = len(set(cells)) < len(cells)
    return put_new_words(relabel(cells, rng) if repeats else cells, rng)


def _redraw_links(
    tables: Mapping[str, Rows], name: str, links: Sequence[Link], unique: set[str], rng: np.random.Generator
) -> dict[str, list[Cell]]:
    """Let each row refer to a random row, where its links are not part of a key. NULL stays NULL."""
    new: dict[str, list[Cell]] = {}
    for link in links:
        if link.table != name or unique & set(link.columns):
            continue
        target = tables[link.target]
        drawn = [int(row) for row in rng.integers(len(target.addresses), size=len(tables[name].addresses))]
        for column, target_column in zip(link.columns, link.target_columns, strict=True):
            old = tables[name].columns[column]
            cells = target.columns[target_column]
            new[column] = [None if cell is None else cells[row] for cell, row in zip(old, drawn, strict=True)]
    return new


def _update(connection: sqlite3.Connection, rows: Rows, new: Mapping[str, list[Cell]]) -> None:
    """Write changed rows. One that would break a constraint stays as it was."""
    if not new:
        return
    assignments = ", ".join(f"{quote_name(name)} = ?" for name in new)
    where = " AND ".join(f"{column} = ?" for column in rows.key)
    statement = f"UPDATE OR IGNORE {quote_name(rows.schema.name)} SET {assignments} WHERE {where}"
    cells = zip(*new.values(), strict=True)
    connection.executemany(statement, [(*row, *key) for row, key in zip(cells, rows.addresses, strict=True)])
