"""What the model gets to see of a query: a table with names, in order, and a word on whatever was cut."""

import re

from envgym.sql.table import Cell, Failure, Table

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def render(result: Table | Failure) -> str:
    """Show a result as text.

    >>> print(render(Table(columns=("name", "age"), rows=(("Ada", 36), ("Bo", None)))))
    name | age
    --- | ---
    Ada | 36
    Bo | NULL
    (2 rows)
    >>> render(Failure(kind="error", message="no such table: x"))
    'Error: no such table: x'
    """
    if isinstance(result, Failure):
        return f"Error: {_one_line(result.message)}"
    lines = [_line(result.columns), _line(["---"] * len(result.columns))]
    lines += [" | ".join(map(show_cell, row)) for row in result.rows]
    return "\n".join([*lines, f"({_summary(result)})"])


def _summary(table: Table) -> str:
    count = len(table.rows)
    notes = [f"the first {_count(count, 'row')}; more follow" if table.more_rows else _count(count, "row")]
    if table.hidden_columns:
        notes.append(f"{_count(table.hidden_columns, 'further column')} not shown")
    if table.cut_cells:
        notes.append(f"{_count(table.cut_cells, 'long value')} cut short")
    return "; ".join(notes)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"


def show_cell(cell: Cell) -> str:
    """One cell on one line. The text 'NULL' is quoted, so that only NULL looks like NULL."""
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        return f"x'{cell.hex()}'"
    if isinstance(cell, str):
        return f"'{cell}'" if cell.upper() == "NULL" else _one_line(cell).replace("|", "\\|")
    return str(cell)


def _line(names: tuple[str, ...] | list[str]) -> str:
    return " | ".join(_one_line(name).replace("|", "\\|") for name in names)


def _one_line(text: str) -> str:
    if text.isprintable():  # nearly always, and far cheaper to see
        return text
    return _CONTROL.sub(lambda match: _ESCAPES.get(match[0], f"\\x{ord(match[0]):02x}"), text)
