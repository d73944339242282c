"""A frozen clock and a seeded ``random()`` for SQLite, so that the same query gives the same result at any time.

SQLite's own date functions still do the work, in a connection of their own; only ``'now'`` is replaced.
Standard library only, since the worker process imports it.
"""

import random
import sqlite3
from collections.abc import Callable

from envgym.sql.table import FROZEN_NOW, Cell

# Date functions and the positions of their time values among their arguments.
_TIME_VALUE_AT: dict[str, tuple[int, ...]] = {
    "date": (0,),
    "time": (0,),
    "datetime": (0,),
    "julianday": (0,),
    "unixepoch": (0,),
    "strftime": (1,),
    "timediff": (0, 1),
}
_KEYWORDS = {"current_timestamp": slice(0, 19), "current_date": slice(0, 10), "current_time": slice(11, 19)}
_MEANS_NOW = frozenset({"now", "subsec", "subsecond"})


class FrozenClock:
    """The time and the random numbers that one connection's queries see."""

    def __init__(self) -> None:
        self.now = FROZEN_NOW
        self.was_read = False
        self._seed = 0
        self._random: random.Random | None = None
        self._originals = sqlite3.connect(":memory:", isolation_level=None)

    def restart(self, now: str, seed: int) -> None:
        """Forget the last query and set the time and the seed of the next."""
        self.now, self._seed = now, seed
        self.was_read = False
        self._random = None

    def install(self, connection: sqlite3.Connection) -> None:
        """Replace the functions that read a clock or draw numbers."""
        length = connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
        self._originals.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
        for name, part in _KEYWORDS.items():
            connection.create_function(name, 0, self._keyword(part), deterministic=True)
        for name in self._date_functions():
            connection.create_function(name, -1, self._date_function(name), deterministic=True)
        connection.create_function("random", 0, self._draw)

    def _date_functions(self) -> list[str]:
        """Those of the date functions that this build of SQLite has."""
        rows = self._originals.execute("SELECT DISTINCT name FROM pragma_function_list")
        return [name for (name,) in rows if name in _TIME_VALUE_AT]

    def _keyword(self, part: slice) -> Callable[[], str]:
        def read() -> str:
            self.was_read = True
            return self.now[part]

        return read

    def _date_function(self, name: str) -> Callable[..., Cell]:
        def call(*arguments: Cell) -> Cell:
            frozen = self._freeze(list(arguments), _TIME_VALUE_AT[name])
            marks = ",".join("?" * len(frozen))
            row: tuple[Cell] = self._originals.execute(f"SELECT {name}({marks})", frozen).fetchone()
            return row[0]

        return call

    def _freeze(self, arguments: list[Cell], positions: tuple[int, ...]) -> list[Cell]:
        """Write the frozen time in the place of ``'now'``, and where a time value was left out."""
        for position in positions:
            if position == len(arguments):
                arguments.append("now")
            value = arguments[position] if position < len(arguments) else None
            if isinstance(value, str) and value.lower() in _MEANS_NOW:
                self.was_read = True
                arguments[position] = self.now
        return arguments

    def _draw(self) -> int:
        self._random = self._random or random.Random(self._seed)
        return self._random.getrandbits(64) - 2**63
