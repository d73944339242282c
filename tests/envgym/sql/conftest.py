import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(session_cache, monkeypatch):
    """Databases are made and mutated in a folder of this test run, not in the user's cache."""
    monkeypatch.setenv("ENVGYM_CACHE", str(session_cache))


@pytest.fixture
def make_database(tmp_path) -> Callable[..., Path]:
    """``make_database("name", "CREATE …; INSERT …")`` writes a SQLite file and returns its path."""

    def make(name: str, script: str) -> Path:
        path = tmp_path / f"{name}.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript("PRAGMA synchronous = OFF;" + script)
        return path

    return make


SHOP = """
CREATE TABLE shop (id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT, area REAL);
CREATE TABLE sale (id INTEGER PRIMARY KEY, shop_id INTEGER REFERENCES shop (id), amount INTEGER, day TEXT);
INSERT INTO shop VALUES (1, 'Ada', 'Arden', 20.5), (2, 'Bo', 'Brook', 31.0), (3, 'Cy', 'Arden', NULL);
INSERT INTO sale VALUES (1, 1, 10, '2024-05-01'), (2, 1, 30, '2024-05-02'), (3, 2, 25, '2024-05-02'),
    (4, 3, 5, '2024-05-03'), (5, 3, 60, '2024-05-04'), (6, 2, 90, '2024-05-05');
"""


@pytest.fixture
def shop(make_database) -> Path:
    """Three shops and six sales."""
    return make_database("shop", SHOP)


@pytest.fixture
def shop_tasks(tmp_path, shop) -> Callable[..., dict[str, str]]:
    """``shop_tasks(gold, question=…)`` writes a task file and returns the arguments of an env that plays it."""

    def write(*golds: str, question: str = "How many?", script: str = "") -> dict[str, str]:
        if script:
            with closing(sqlite3.connect(shop)) as connection:
                connection.executescript(script)
        records = [{"question": question, "query": gold, "db_id": "shop"} for gold in golds]
        file = tmp_path / "tasks.json"
        file.write_text(json.dumps(records))
        return {"tasks": str(file), "eval_tasks": str(file), "databases": str(tmp_path)}

    return write


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data, if this machine has it."""
    folder = Path(os.environ.get("SHARED_DIR") or Path(__file__).parents[4] / "shared").resolve()
    if not (folder / "data" / "spider").is_dir():
        pytest.skip(f"no real data in {folder}; set SHARED_DIR")
    return folder
