import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from envgym.errors import SetupError
from envgym.sql.database import open_read_only
from envgym.sql.mutation import is_measure, put_new_words, relabel, shift_numbers
from envgym.sql.perturb import STRENGTHS, Strength, mutate, mutated_copy
from envgym.sql.source import file_source

SCHOOL = """
CREATE TABLE teacher (teacher_id INTEGER PRIMARY KEY, name TEXT UNIQUE, town TEXT, married INTEGER);
CREATE TABLE course (course_id INTEGER PRIMARY KEY, title TEXT, hours INTEGER CHECK (hours > 0), fee REAL,
    taught_by INTEGER REFERENCES teacher (teacher_id));
CREATE TABLE visit (student TEXT, course_id INTEGER, day TEXT, PRIMARY KEY (student, course_id)) WITHOUT ROWID;
CREATE TABLE lonely (word TEXT);
CREATE TRIGGER no_loss BEFORE DELETE ON course BEGIN SELECT RAISE(ABORT, 'no'); END;
INSERT INTO lonely VALUES ('one');
"""


@pytest.fixture
def school(make_database) -> Path:
    teachers = ",".join(
        f"({n}, 'Teacher {chr(65 + n)}', '{('Arden', 'Brook', 'Combe')[n % 3]}', {n % 2})" for n in range(12)
    )
    courses = ",".join(f"({n}, 'Course {n}', {10 + 3 * n}, {n * 7.25}, {n % 12})" for n in range(30))
    visits = ",".join(f"('s{n % 17}', {n % 30}, '2024-01-{1 + n % 28:02}')" for n in range(120))
    return make_database(
        "school",
        f"{SCHOOL} INSERT INTO teacher VALUES {teachers}; INSERT INTO course VALUES {courses};"
        f"INSERT OR IGNORE INTO visit VALUES {visits};",
    )


def mutated(path: Path, strength: Strength, seed: int = 0) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with closing(open_read_only(path)) as original:
        original.backup(connection)
    mutate(connection, strength, [seed])
    return connection


def rows(connection: sqlite3.Connection, sql: str) -> list[tuple]:
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize("strength", STRENGTHS)
def test_keys_stay_unique_and_links_stay_whole(school, strength):
    copy = mutated(school, strength)
    assert rows(copy, "PRAGMA integrity_check") == [("ok",)]
    assert rows(copy, "PRAGMA foreign_key_check") == []
    # This link is not declared; its name and its values give it away.
    assert rows(copy, "SELECT * FROM visit WHERE course_id NOT IN (SELECT course_id FROM course)") == []


@pytest.mark.parametrize("strength", STRENGTHS)
def test_every_table_keeps_rows_and_loses_some(school, strength):
    copy = mutated(school, strength)
    for table, before in (("teacher", 12), ("course", 30), ("visit", 120)):
        assert 0 < rows(copy, f"SELECT count(*) FROM {table}")[0][0] < before
    assert rows(copy, "SELECT * FROM lonely") == [("one",)]


def test_a_copy_keeps_kinds_signs_constraints_and_duplicates_apart(school):
    copy = mutated(school, STRENGTHS[0])
    courses = rows(copy, "SELECT hours, fee, title FROM course")
    assert all(isinstance(hours, int) and hours > 0 for hours, _, _ in courses)
    assert all(isinstance(fee, float) and fee >= 0 for _, fee, _ in courses)
    assert len({hours for hours, _, _ in courses}) == len(courses)
    assert len({title for _, _, title in courses}) == len(courses)
    assert {married for (married,) in rows(copy, "SELECT married FROM teacher")} <= {0, 1}


def test_the_same_seed_gives_the_same_copy_and_another_seed_another(school):
    dump = "\n".join(mutated(school, STRENGTHS[3], seed=1).iterdump())
    assert "\n".join(mutated(school, STRENGTHS[3], seed=1).iterdump()) == dump
    assert "\n".join(mutated(school, STRENGTHS[3], seed=2).iterdump()) != dump


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM course",
        "SELECT max(fee) FROM course",
        "SELECT sum(hours) FROM course",
        "SELECT DISTINCT town FROM teacher ORDER BY town",
        "SELECT name FROM teacher WHERE town = 'Arden' ORDER BY name",
        "SELECT title FROM course ORDER BY fee DESC LIMIT 1",
        "SELECT t.name, count(*) FROM teacher t JOIN course c ON c.taught_by = t.teacher_id GROUP BY 1 ORDER BY 1",
    ],
)
def test_results_differ_on_some_gentle_copy(school, sql):
    with closing(open_read_only(school)) as original:
        before = original.execute(sql).fetchall()
    assert any(rows(mutated(school, strength), sql) != before for strength in STRENGTHS[:3])


def test_the_original_is_only_read_and_the_copy_is_cached(school, session_cache):
    before = (school.read_bytes(), school.stat().st_mtime_ns)
    first = mutated_copy(school, 0)
    assert first.is_relative_to(session_cache)
    assert mutated_copy(school, 0) == first
    assert mutated_copy(school, 1) != first
    assert mutated_copy(school, 0, seed=7) != first
    assert (school.read_bytes(), school.stat().st_mtime_ns) == before
    assert sorted(path.name for path in school.parent.iterdir()) == ["school.sqlite"]


def test_a_changed_database_gets_new_copies(school):
    before = mutated_copy(school, 0)
    with closing(sqlite3.connect(school)) as connection:
        connection.execute("INSERT INTO lonely VALUES ('two')")
        connection.commit()
    assert mutated_copy(school, 0) != before


def test_a_file_that_is_no_database_is_a_setup_error(tmp_path):
    path = tmp_path / "x.sqlite"
    path.write_text("hello, this is not a database, and long enough to be looked at" * 50)
    with pytest.raises(SetupError, match="not a readable SQLite database"):
        mutated_copy(path, 0)


def test_changes_in_a_write_ahead_log_are_not_overlooked(school):
    writer = sqlite3.connect(school)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO lonely VALUES ('two')")
    writer.commit()
    with pytest.raises(SetupError, match="wal_checkpoint"):
        mutated_copy(school, 0)
    writer.close()


def test_a_database_too_large_to_copy_is_reported_when_tasks_are_loaded(tmp_path):
    (tmp_path / "tasks.json").write_text('[{"question": "q", "query": "SELECT 1", "db_id": "large"}]')
    with (tmp_path / "large.sqlite").open("wb") as file:
        file.truncate(257 * 2**20)
    tasks = str(tmp_path / "tasks.json")
    with pytest.raises(SetupError, match=r"larger than 256 MiB.*turn it off"):
        file_source(tasks, tasks, str(tmp_path), "auto", perturb=True)
    file_source(tasks, tasks, str(tmp_path), "auto", perturb=False)


def test_relabelling_keeps_which_cells_are_equal():
    cells = ["a", "b", "a", None, "c", "a"]
    new = relabel(cells, np.random.default_rng(1))
    assert new[3] is None and new[0] == new[2] == new[5]
    assert sorted(Counter(new).values()) == sorted(Counter(cells).values())


def test_shifted_numbers_stay_near_distinct_and_whole():
    cells = [5, 100, 35, None, 70]
    new = shift_numbers(cells, np.random.default_rng(0))
    assert new[3] is None and new != cells
    numbers = [number for number in new if number is not None]
    assert all(isinstance(number, int) and number >= 1 for number in numbers)
    assert len(set(numbers)) == 4
    # A tenth of the range of 95, rounded.
    assert all(abs(after - before) <= 10 for after, before in zip(numbers, [5, 100, 35, 70], strict=True))


def test_shifted_decimals_keep_their_places():
    new = shift_numbers([1.25, 2.5, 10.75], np.random.default_rng(0))
    assert all(round(number, 2) == number and isinstance(number, float) for number in new)


def test_codes_are_no_measures():
    assert not is_measure([0, 1, 1, 0]) and not is_measure([1, 2, 3, 4, 5]) and not is_measure([None, 7])
    assert is_measure([1990, 2020]) and is_measure([0.1, 0.2])


def test_new_words_did_not_occur_and_leave_codes_alone():
    words = ["red", "green", "blue", "red"] * 5
    new = put_new_words(words, np.random.default_rng(0))
    # A tenth of 20 cells.
    assert sum(cell not in words for cell in new) == 2
    for kept in (["T", "F", "T"], ["2024-01-01", "2024-01-02", "2024-01-03"], ["A1", "B2", "C3"]):
        assert put_new_words(kept, np.random.default_rng(0)) == kept
