"""How queries and answers travel between a process and its workers: one line of JSON each.

Standard library only, since the worker process imports it.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from envgym.sql.table import Caps, Cell, Failure, Query, Table

READY = b"ready\n"
"""What a worker says first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """The query could not be answered, through no fault of its own."""

    reason: str


def encode_query(query: Query) -> bytes:
    """A query as a line."""
    caps = query.caps
    fields = {
        "path": query.path,
        "sql": query.sql,
        "seconds": query.seconds,
        "caps": (caps.rows, caps.columns, caps.cell_characters, caps.total_characters),
        "now": query.now,
        "seed": query.seed,
    }
    return json.dumps(fields).encode() + b"\n"


def decode_query(line: bytes) -> Query:
    """The query that a line holds."""
    fields: dict[str, Any] = json.loads(line)
    rows, columns, cell, total = fields.pop("caps")
    caps = Caps(rows=rows, columns=columns, cell_characters=cell, total_characters=total)
    return Query(**fields, caps=caps)


def encode_answer(answer: Table | Failure | Broken) -> bytes:
    """An answer as a line."""
    kind = type(answer).__name__
    fields = _table_fields(answer) if isinstance(answer, Table) else asdict(answer)
    return _ENCODER.encode({"is": kind, **fields}).encode() + b"\n"


def _table_fields(table: Table) -> dict[str, Any]:
    return {
        "columns": table.columns,
        "rows": table.rows,
        "more_rows": table.more_rows,
        "hidden_columns": table.hidden_columns,
        "cut_cells": table.cut_cells,
        "reads_clock": table.reads_clock,
    }


def decode_answer(line: bytes) -> Table | Failure | Broken:
    """The answer that a line holds."""
    fields: dict[str, Any] = _DECODER.decode(line.decode())
    kind = fields.pop("is")
    if kind == "Failure":
        return Failure(**fields)
    if kind == "Broken":
        return Broken(**fields)
    columns: list[str] = fields.pop("columns")
    rows: list[list[Cell]] = fields.pop("rows")
    return Table(columns=tuple(columns), rows=tuple(map(tuple, rows)), **fields)


def _encode_blob(value: object) -> dict[str, str]:
    if not isinstance(value, bytes):
        raise TypeError(f"a cell of type {type(value).__name__} has no place in a result")
    return {"blob": value.hex()}


def _decode_blob(found: dict[str, Any]) -> Any:
    return bytes.fromhex(found["blob"]) if found.keys() == {"blob"} else found


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_encode_blob)
_DECODER = json.JSONDecoder(object_hook=_decode_blob)
