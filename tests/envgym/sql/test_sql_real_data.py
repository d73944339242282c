"""Real questions, golds, databases and predictions. Skipped where the folder of real data is absent."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from envgym.envs.txt2sql import Txt2SqlEnv
from envgym.sql.comparator import Mode, compare
from envgym.sql.gold import GoldQuery, run_for_grading, run_gold, run_on_copy
from envgym.sql.grade import grade
from envgym.sql.lexer import has_top_level_order
from envgym.sql.preflight import preflight
from envgym.sql.rules import GradingRules
from envgym.sql.schema import describe_database
from envgym.sql.source import file_source
from envgym.sql.table import Cell, Table

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Example:
    """A question of Spider's development set with a real prediction."""

    database: Path
    gold: str
    prediction: str


@pytest.fixture(scope="module")
def examples(shared) -> list[Example]:
    folder = shared / "data" / "spider"
    questions = [json.loads(line) for line in (folder / "dev.jsonl").open()]
    predictions = [json.loads(line)["prediction"] for line in (folder / "graphix_predictions.jsonl").open()]
    return [
        Example(find(folder, question["db_id"]), question["query"], prediction)
        for question, prediction in zip(questions, predictions, strict=True)
    ]


def find(folder: Path, db_id: str) -> Path:
    return folder / "database" / db_id / f"{db_id}.sqlite"


def accepts(mode: Mode, database: Path, gold: str, prediction: str) -> bool:
    """Whether the prediction's result passes for the gold's."""
    result = run_gold(GoldQuery(database=database, sql=gold))
    answer = run_for_grading(GoldQuery(database=database, sql=prediction))
    if not isinstance(answer, Table):
        return False
    return compare(result.table, answer, mode=mode, in_order=result.in_order).equal is True


def test_all_972_golds_run_and_equal_themselves(examples):
    assert len(examples) == 972
    for mode in ("ordered", "bag", "set", "permuted", "subset"):
        assert all(accepts(mode, example.database, example.gold, example.gold) for example in examples)


@pytest.mark.parametrize(("mode", "count"), [("set", 762), ("bag", 750)])
def test_real_predictions_score_as_published_comparators_score_them(examples, mode, count):
    right = [accepts(mode, example.database, example.gold, example.prediction) for example in examples]
    assert sum(right) == count


@pytest.mark.parametrize(
    ("mode", "name"), [("set", "set"), ("bag", "multiset"), ("ordered", "ordered-if"), ("permuted", "ts_keep")]
)
def test_comparators_agree_with_public_ones_where_those_differ(shared, mode, name):
    lines = (shared / "acceptance" / "sql_comparator_cases.jsonl").read_text().splitlines()
    for case in map(json.loads, lines):
        database = find(shared / "data" / "spider", case["db_id"])
        assert accepts(mode, database, case["gold"], case["pred"]) is (name in case["accepted_by"]), case


@pytest.fixture(scope="module")
def ordered_golds(examples) -> list[Example]:
    """Golds that ask for an order and for all rows."""
    chosen = [e for e in examples if has_top_level_order(e.gold) and "limit" not in e.gold.lower()]
    unique = {(example.database, example.gold): example for example in chosen}
    return chosen if len(chosen) == 44 else list(unique.values())


def test_dropping_an_order_is_nearly_always_caught(ordered_golds):
    assert len(ordered_golds) == 44
    dropped = [re.sub(r"\border\s+by\b.*", "", example.gold, flags=re.IGNORECASE) for example in ordered_golds]
    caught = [
        not accepts("ordered", e.database, e.gold, sql) for e, sql in zip(ordered_golds, dropped, strict=True)
    ]
    assert sum(caught) >= 40


def test_turning_an_order_round_is_always_caught(ordered_golds):
    turned = [turn_round(example.gold) for example in ordered_golds]
    caught = [
        not accepts("ordered", e.database, e.gold, sql) for e, sql in zip(ordered_golds, turned, strict=True)
    ]
    assert sum(caught) == 44


def turn_round(sql: str) -> str:
    """Ascending to descending and back."""
    words = {"asc": "DESC", "desc": "ASC"}
    turned, count = re.subn(r"\b(asc|desc)\b", lambda match: words[match[0].lower()], sql, flags=re.IGNORECASE)
    return turned if count else sql.rstrip().rstrip(";") + " DESC"


def literal(cell: Cell) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, str):
        return "'" + cell.replace("'", "''") + "'"
    return f"x'{cell.hex()}'" if isinstance(cell, bytes) else repr(cell)


def constants(table: Table, some_table: str) -> list[str]:
    """Queries that hold a result as literals, without a FROM and with one, and one that gives no row."""
    nothing = f"SELECT {', '.join('NULL' for _ in table.columns)} FROM {some_table} WHERE 0"
    if not table.rows:
        return [nothing]
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in table.rows)
    without = f"VALUES {values}"
    from_values = f"SELECT * FROM ({without})"
    first = ", ".join(map(literal, table.rows[0]))
    from_table = [f"SELECT {first} FROM {some_table} LIMIT 1"] if len(table.rows) == 1 else []
    return [nothing, without, from_values, *from_table]


def test_constants_fail_on_mutated_copies(examples):
    rules = GradingRules(perturb=True)
    passed, told_apart = [], 0
    for gold in {(example.database, example.gold): None for example in examples}:
        query = GoldQuery(database=gold[0], sql=gold[1])
        copy = run_on_copy(query, rules)
        if copy is None or not copy.tells_apart:
            continue
        told_apart += 1
        table = run_gold(query).table
        some_table = re.search(r'CREATE TABLE (\w+|"[^"]+")', describe_database(gold[0]))[1]
        for constant in constants(table, some_table):
            if grade(constant, (gold[1],), gold[0], rules).status == "right":
                passed.append((gold, constant))
        assert grade(gold[1], (gold[1],), gold[0], rules).status == "right"
    assert len(passed) <= 0.01 * told_apart, passed
    assert told_apart >= 0.95 * len({(example.database, example.gold) for example in examples})


def test_preflight_names_every_gold_that_cannot_be_told_from_a_constant(shared, examples):
    dev = str(shared / "data" / "spider" / "dev.jsonl")
    findings = list(preflight(file_source(dev, dev, None, "auto"), GradingRules(perturb=True)))
    faults = Counter(finding.fault for finding in findings)
    assert faults["empty"] == 49 and faults["fails"] == 0 and faults["clock"] == 0
    assert 0 < faults["constant"] < 0.03 * len(examples)
    named = {finding.task_id for finding in findings if finding.fault == "constant"}
    rules = GradingRules(perturb=True)
    for number, example in enumerate(examples):
        copy = run_on_copy(GoldQuery(database=example.database, sql=example.gold), rules)
        assert (f"dev-{number}" in named) is (copy is None or not copy.tells_apart)


def test_perturb_turns_down_predictions_that_were_right_by_accident_only(examples):
    """A guard against copies that are unfair: 750 predictions pass without, and nearly all of them with."""
    rules = GradingRules(perturb=True)
    right = [e for e in examples if accepts("ordered", e.database, e.gold, e.prediction)]
    lost = [e for e in right if grade(e.prediction, (e.gold,), e.database, rules).status != "right"]
    assert len(right) == 749 and len(lost) < 0.03 * len(right)


def test_defog_golds_run_and_those_that_read_the_clock_are_named(shared):
    folder = shared / "data" / "defog"
    source = file_source(str(folder / "questions.jsonl"), None, None, "auto")
    assert sum(map(len, source.tasks.values())) == 314
    findings = list(preflight(source, GradingRules(now="2026-11-30 00:00:00")))
    faults = Counter(finding.fault for finding in findings)
    records = [json.loads(line) for line in (folder / "questions.jsonl").open()]
    reading = {f"questions-{number}" for number, record in enumerate(records) if record["uses_now"]}
    assert {finding.task_id for finding in findings if finding.fault == "clock"} == reading
    assert faults["fails"] == 0


@pytest.mark.parametrize("name", ["chinook/Chinook_Sqlite.sqlite", "northwind/northwind.sqlite"])
def test_databases_with_blanks_views_and_blobs_are_described_and_mutated(shared, name):
    database = shared / "data" / name
    assert "CREATE TABLE" in describe_database(database, 2)
    copy = run_on_copy(GoldQuery(database=database, sql="SELECT count(*) FROM sqlite_master"), GradingRules())
    assert copy is not None and not copy.tells_apart


def test_spider_is_played_by_path(shared):
    env = Txt2SqlEnv(tasks=str(shared / "data" / "spider" / "dev.jsonl"), samples=2)
    assert len(env.tasks("train")) + len(env.tasks("eval")) == 972
    (message,), _ = env.reset(seed=0)
    assert "CREATE TABLE" in message.text
    assert env.step("<sql>SELECT 1</sql>")[0][0].text.startswith("<observation>")
