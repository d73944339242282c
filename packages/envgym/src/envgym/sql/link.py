"""Which columns point at rows of other tables: as declared, and as names and values give away.

Many databases declare no foreign keys. Where their links are not known, deleting a row leaves others pointing at
nothing, and joins that were equivalent no longer are.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envgym.sql.schema import TableSchema
from envgym.sql.table import Cell

_KEY_NAME = re.compile(r"(?:id|code|key)\Z", re.IGNORECASE)
_TEXTS_FOR_A_LINK = 3  # fewer different texts may be included in another column by accident


@dataclass(kw_only=True, slots=True)
class Rows:
    """A table in memory. ``addresses[i]`` finds row ``i`` again; ``columns[name][i]`` is one of its cells."""

    schema: TableSchema
    key: tuple[str, ...]
    """What an address is made of, as SQL: the rowid, or the columns of the primary key where there is none."""
    addresses: list[tuple[Cell, ...]]
    columns: dict[str, list[Cell]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """Columns whose values point at rows of a table."""

    table: str
    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]


def looks_like_key(column: str) -> bool:
    """Whether a column's name says that its values stand for something else.

    >>> looks_like_key("StuID"), looks_like_key("country_code"), looks_like_key("age")
    (True, True, False)
    """
    return _KEY_NAME.search(column) is not None


def find_links(tables: Mapping[str, Rows]) -> list[Link]:
    """Declared links first, then one inferred link for each further column that looks like one."""
    links = [link for link in _declared(tables) if link.target in tables]
    linked = {(link.table, column) for link in links for column in link.columns}
    sources = [(name, column) for name, rows in tables.items() for column in rows.columns]
    targets = list(_unique_columns(tables))
    for name, column in sources:
        if (name, column) not in linked:
            links.extend(_infer(tables, name, column, targets))
    return links


def _declared(tables: Mapping[str, Rows]) -> Iterator[Link]:
    for name, rows in tables.items():
        for key in rows.schema.foreign_keys:
            columns = _spelled(rows, key.columns)
            targets = _spelled(tables[key.table], key.targets) if key.table in tables else ()
            if columns and len(columns) == len(targets):
                yield Link(table=name, columns=columns, target=key.table, target_columns=targets)


def _spelled(rows: Rows, names: tuple[str, ...]) -> tuple[str, ...]:
    """Column names in the table's own upper and lower case."""
    own = {name.lower(): name for name in rows.columns}
    return tuple(own[name.lower()] for name in names if name.lower() in own)


def _unique_columns(tables: Mapping[str, Rows]) -> Iterator[tuple[str, str, frozenset[Cell]]]:
    """(table, column, values) of columns that have a different value, not NULL, in each of at least two rows."""
    for name, rows in tables.items():
        for column, cells in rows.columns.items():
            values = frozenset(cells)
            if 1 < len(cells) == len(values) and None not in values:
                yield name, column, values


def _infer(
    tables: Mapping[str, Rows], name: str, column: str, targets: list[tuple[str, str, frozenset[Cell]]]
) -> list[Link]:
    """At most one link: the best named unique column of another table that includes all values of this one."""
    values = {cell for cell in tables[name].columns[column] if cell is not None}
    included = [(table, target) for table, target, known in targets if table != name and values <= known]
    if not values or not included:
        return []
    named = [(table, target) for table, target in included if _names_fit(column, table, target)]
    is_text = len(values) >= _TEXTS_FOR_A_LINK and all(isinstance(cell, str) for cell in values)
    fitting = named or (included if is_text else [])
    return [
        Link(table=name, columns=(column,), target=table, target_columns=(target,))
        for table, target in fitting[:1]
    ]


def _names_fit(column: str, table: str, target: str) -> bool:
    """``stadium_id`` fits ``stadium.stadium_id``, ``stadium.id`` and ``stadiums.id``."""
    plain, owner, key = (re.sub(r"[^a-z0-9]", "", name.lower()) for name in (column, table, target))
    own_key = _KEY_NAME.match(plain) is not None  # a bare "id" names the row it is in
    return looks_like_key(plain) and not own_key and plain in {key, owner + key, owner.removesuffix("s") + key}
