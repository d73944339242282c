import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from envgym.errors import InfrastructureError
from envgym.sql.pool import WorkerPool, run_query, shared_pool
from envgym.sql.table import Caps, Failure, Query, Table

pytestmark = pytest.mark.integration
ROOM = Caps(rows=1000, columns=100, cell_characters=10_000, total_characters=100_000)


def ask(path: Path, sql: str, *, seconds: float = 2.0, caps: Caps = ROOM, **more) -> Table | Failure:
    return run_query(Query(path=str(path), sql=sql, seconds=seconds, caps=caps, **more))


def test_a_query_gives_names_types_order_and_duplicates(shop):
    answer = ask(shop, "SELECT town, area, x'00ff' AS raw, 1 FROM shop ORDER BY id")
    assert answer.columns == ("town", "area", "raw", "1")
    raw = b"\x00\xff"
    assert answer.rows == (("Arden", 20.5, raw, 1), ("Brook", 31.0, raw, 1), ("Arden", None, raw, 1))
    assert answer.is_whole


def test_caps_are_applied_while_fetching_and_reported(shop):
    caps = Caps(rows=2, columns=2, cell_characters=3, total_characters=1000)
    answer = ask(shop, "SELECT town, name, id FROM shop", caps=caps)
    assert answer.rows == (("Ard… (5 characters)", "Ada"), ("Bro… (5 characters)", "Bo"))
    assert (answer.more_rows, answer.hidden_columns, answer.cut_cells) == (True, 1, 2)
    assert not answer.is_whole


def test_total_characters_bound_a_result_of_many_rows(shop):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 'abcdefgh' FROM n"
    answer = ask(shop, endless, caps=Caps(rows=10**9, columns=10, cell_characters=100, total_characters=1600))
    assert answer.more_rows
    assert len(answer.rows) == 101  # 16 characters a row; the row that goes over is the last


def test_a_result_that_just_fits_is_whole(shop):
    caps = Caps(rows=3, columns=1, cell_characters=2, total_characters=24)
    assert ask(shop, "SELECT id FROM shop", caps=caps).is_whole


@pytest.mark.parametrize("name", ["with blank", "with'quote", "percent%20", "question?mark", "hash#", "ünï"])
def test_any_file_name_opens(make_database, name):
    path = make_database(name, "CREATE TABLE t (a); INSERT INTO t VALUES (7)")
    assert ask(path, "SELECT a FROM t").rows == ((7,),)


def test_text_that_is_not_utf8_is_readable(make_database):
    path = make_database("odd", "CREATE TABLE t (a); INSERT INTO t VALUES (CAST(x'41ff42' AS TEXT))")
    assert ask(path, "SELECT a FROM t").rows == (("A\ufffdB",),)


def test_full_text_tables_are_readable_and_stay_unwritten(make_database):
    path = make_database(
        "texts",
        "CREATE VIRTUAL TABLE five USING fts5(a); INSERT INTO five VALUES ('hello world'), ('goodbye');"
        "CREATE VIRTUAL TABLE four USING fts4(a); INSERT INTO four VALUES ('hello moon');"
        "CREATE VIRTUAL TABLE boxes USING rtree(id, low, high); INSERT INTO boxes VALUES (1, 2, 3);",
    )
    assert ask(path, "SELECT a FROM five WHERE five MATCH 'hello'").rows == (("hello world",),)
    assert ask(path, "SELECT a FROM four WHERE four MATCH 'moon'").rows == (("hello moon",),)
    assert ask(path, "SELECT low FROM boxes").rows == ((2.0,),)
    assert ask(path, "INSERT INTO five(five) VALUES ('rebuild')").kind == "denied"


def test_the_clock_stands_still_and_random_is_seeded(shop):
    sql = "SELECT date('now'), current_timestamp, time('now', '+1 hour'), strftime('%Y', 'now'), random()"
    first = ask(shop, sql, now="2020-02-29 10:00:00", seed=5)
    assert first.rows[0][:4] == ("2020-02-29", "2020-02-29 10:00:00", "11:00:00", "2020")
    assert first.reads_clock
    assert ask(shop, sql, now="2020-02-29 10:00:00", seed=5) == first
    assert ask(shop, sql, now="2020-02-29 10:00:00", seed=6) != first


def test_dates_that_are_not_now_are_sqlites_own(shop):
    sql = "SELECT date('2024-01-31', '+1 month'), julianday('2000-01-01 12:00'), strftime('%j', '2024-03-01')"
    answer = ask(shop, sql)
    assert answer.rows == (("2024-03-02", 2451545.0, "061"),)
    assert not answer.reads_clock


def test_a_deadline_ends_what_can_be_interrupted_and_keeps_the_worker(shop):
    pool = WorkerPool(size=1)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    query = Query(path=str(shop), sql="SELECT 1", seconds=0.3, caps=ROOM)
    pool.run(query)
    (before,) = pool.process_ids
    started = time.monotonic()
    answer = pool.run(Query(path=str(shop), sql=endless, seconds=0.3, caps=ROOM))
    assert isinstance(answer, Failure) and answer.kind == "timeout"
    assert 0.3 <= time.monotonic() - started < 1.3
    assert pool.process_ids == (before,)
    pool.close()


def test_a_deadline_kills_what_cannot_be_interrupted_and_the_next_query_is_served(shop):
    pool = WorkerPool(size=1)
    deep_in_c = "SELECT instr(hex(zeroblob(7000000)), hex(zeroblob(3000000)) || '1')"
    pool.run(Query(path=str(shop), sql="SELECT 1", seconds=0.3, caps=ROOM))
    (before,) = pool.process_ids
    started = time.monotonic()
    answer = pool.run(Query(path=str(shop), sql=deep_in_c, seconds=0.3, caps=ROOM))
    assert isinstance(answer, Failure) and answer.kind == "timeout"
    assert time.monotonic() - started < 1.3
    assert pool.process_ids != (before,)
    assert pool.run(Query(path=str(shop), sql="SELECT 7", seconds=2, caps=ROOM)).rows == ((7,),)
    pool.close()


def test_a_worker_killed_while_idle_is_replaced_unnoticed(shop):
    pool = WorkerPool(size=1)
    query = Query(path=str(shop), sql="SELECT 7", seconds=2, caps=ROOM)
    pool.run(query)
    os.kill(pool.process_ids[0], signal.SIGKILL)
    time.sleep(0.05)
    assert pool.run(query).rows == ((7,),)
    pool.close()


def test_a_worker_killed_by_someone_else_is_an_infrastructure_error(shop):
    pool = WorkerPool(size=1)
    pool.run(Query(path=str(shop), sql="SELECT 7", seconds=2, caps=ROOM))
    (victim,) = pool.process_ids
    threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(InfrastructureError, match="ended with code -9"):
        pool.run(Query(path=str(shop), sql=endless, seconds=5, caps=ROOM))
    assert pool.run(Query(path=str(shop), sql="SELECT 7", seconds=2, caps=ROOM)).rows == ((7,),)
    pool.close()


def test_a_file_that_is_no_database_is_an_infrastructure_error(tmp_path):
    path = tmp_path / "bad.sqlite"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(InfrastructureError, match=r"bad\.sqlite"):
        ask(path, "SELECT * FROM t")
    with pytest.raises(InfrastructureError, match="cannot open"):
        ask(tmp_path / "missing.sqlite", "SELECT 1")
    assert not (tmp_path / "missing.sqlite").exists()


def test_threads_share_the_pool_and_get_their_own_answers(shop):
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(20):
            if ask(shop, f"SELECT {number}, {turn}").rows != ((number, turn),):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(shared_pool().process_ids) <= 8


def _answer_in_child(path: str, queue) -> None:
    queue.put([ask(Path(path), f"SELECT {number}").rows for number in range(20)])


def test_a_forked_child_uses_workers_of_its_own(shop):
    ask(shop, "SELECT 1")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_answer_in_child, args=(str(shop), queue))
    child.start()
    mine = [ask(shop, f"SELECT {number}").rows for number in range(100, 120)]
    assert queue.get(timeout=20) == [((number,),) for number in range(20)]
    assert mine == [((number,),) for number in range(100, 120)]
    child.join(timeout=20)


def test_workers_are_bounded_by_the_kernel(shop):
    ask(shop, "SELECT 1")
    for process in shared_pool().process_ids:
        limits = Path(f"/proc/{process}/limits").read_text().splitlines()
        of = {line[:26].strip(): line[26:47].strip() for line in limits}
        assert int(of["Max address space"]) < 512 * 2**20
        assert of["Max file size"] == "0"
        assert of["Max core file size"] == "0"


def test_workers_end_with_their_owner(shop):
    program = (
        "import sys\nfrom envgym.sql.pool import *\nfrom envgym.sql.table import *\n"
        "caps = Caps(rows=1, columns=1, cell_characters=1, total_characters=1)\n"
        f"run_query(Query(path={str(shop)!r}, sql='SELECT 1', seconds=2, caps=caps))\n"
        "print(*shared_pool().process_ids, flush=True)\nsys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    worker = int(owner.stdout.readline())
    owner.kill()
    owner.communicate()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{worker}/cmdline").exists() and Path(f"/proc/{worker}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.02)
