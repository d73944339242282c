import threading

import pytest

from envgym.errors import BadGoldError, SetupError
from envgym.rewards.execution import execution_match_reward
from envgym.sql.gold import GoldQuery, depends_on_ties, run_gold, run_on_copy
from envgym.sql.grade import grade
from envgym.sql.pool import shared_pool
from envgym.sql.rules import GradingRules

pytestmark = pytest.mark.integration
RUNAWAY = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i FROM n) SELECT max(i) FROM n"
GOLD = "SELECT name FROM shop WHERE town = 'Arden' ORDER BY name"


def status(shop, solution: str, *golds: str, **rules) -> str:
    return grade(solution, golds or (GOLD,), shop, GradingRules(**rules)).status


@pytest.mark.parametrize(
    ("solution", "expected"),
    [
        (GOLD, "right"),
        ("SELECT name FROM shop WHERE id IN (1, 3) ORDER BY 1", "right"),
        ("SELECT name FROM shop WHERE town = 'Arden' ORDER BY name DESC", "wrong"),
        ("SELECT name FROM shop", "wrong"),
        ("SELECT name FROM shop WHERE 0", "wrong"),
        ("SELECT nothing FROM shop", "error"),
        ("DELETE FROM shop", "denied"),
        ("SELECT printf('%.*c', 900000000, 'x')", "timeout"),
        ("SELECT hex(zeroblob(16000000))", "error"),
    ],
)
def test_every_solution_gets_its_status(shop, solution, expected):
    assert status(shop, solution, seconds=0.5) == expected


def test_any_of_several_golds_is_accepted(shop):
    golds = ("SELECT 1", "SELECT count(*) FROM shop")
    assert status(shop, "SELECT 3", *golds) == "right"
    assert status(shop, "SELECT 2", *golds) == "wrong"


def test_an_empty_result_passes_only_against_a_gold_that_is_empty_on_every_copy(shop):
    nothing = "SELECT name FROM shop WHERE 0"
    impossible = "SELECT name FROM shop WHERE town = 'Nowhere'"
    assert status(shop, nothing, impossible) == "right"
    assert status(shop, nothing, impossible, perturb=True) == "right"
    assert status(shop, nothing, GOLD) == status(shop, nothing, GOLD, perturb=True) == "wrong"


@pytest.mark.parametrize("constant", ["SELECT 220", "SELECT 220 FROM sale LIMIT 1", "VALUES (220)"])
def test_a_constant_passes_only_without_perturb(shop, constant):
    gold = "SELECT sum(amount) FROM sale"
    assert status(shop, constant, gold) == "right"
    assert status(shop, constant, gold, perturb=True) == "wrong"
    assert status(shop, "SELECT total(amount) FROM sale", gold, perturb=True) == "right"


def test_a_gold_that_fails_is_never_the_solutions_fault(shop):
    with pytest.raises(BadGoldError) as caught:
        status(shop, "SELECT 1", "SELECT secret_column FROM shop")
    assert "secret" not in str(caught.value)


def test_a_gold_runs_once_per_database_also_from_many_threads(shop, monkeypatch):
    ran: list[str] = []
    pool = shared_pool()
    run = pool.run
    monkeypatch.setattr(pool, "run", lambda query: ran.append(query.sql) or run(query))
    gold = GoldQuery(database=shop, sql="SELECT count(*) FROM sale WHERE amount > 7")
    threads = [threading.Thread(target=run_gold, args=(gold,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run_gold(gold)
    assert ran == [gold.sql]


@pytest.mark.parametrize(
    ("sql", "tied"),
    [
        ("SELECT name FROM shop ORDER BY town", True),
        ("SELECT name FROM shop ORDER BY town LIMIT 1", True),
        ("SELECT name FROM shop LIMIT 1", True),
        ("SELECT name FROM shop WHERE town = (SELECT town FROM shop LIMIT 1)", True),
        ("SELECT name, max(area) FROM shop GROUP BY town", False),
        ("SELECT name, count(*) FROM shop GROUP BY town", True),
        ("SELECT group_concat(name) FROM shop", True),
        ("SELECT random()", True),
        ("SELECT name FROM shop ORDER BY name", False),
        ("SELECT name FROM shop ORDER BY area DESC LIMIT 1", False),
        ("SELECT town FROM shop ORDER BY town", False),
        ("SELECT name FROM shop", False),
        ("SELECT town, sum(area) FROM shop GROUP BY town", False),
        ("SELECT town, count(*) FROM shop GROUP BY town ORDER BY count(*) DESC LIMIT 1", False),
        ("SELECT shop_id FROM sale GROUP BY shop_id ORDER BY count(*) DESC LIMIT 1", True),
        ("SELECT name FROM shop UNION SELECT town FROM shop ORDER BY 1 LIMIT 2", False),
        ("WITH x AS (SELECT * FROM shop) SELECT name FROM x LIMIT 1", True),
    ],
)
def test_golds_that_depend_on_ties_are_found(shop, sql, tied):
    assert depends_on_ties(GoldQuery(database=shop, sql=sql), GradingRules()) is tied


def test_ties_that_the_comparator_ignores_are_none(shop):
    gold = GoldQuery(database=shop, sql="SELECT name FROM shop ORDER BY town")
    assert not depends_on_ties(gold, GradingRules(comparator="bag"))


def test_a_copy_is_passed_over_where_the_gold_comes_to_depend_on_ties(make_database):
    # Deleting either of the two highest leaves no tie; what is checked is that no copy with one is ever chosen.
    rows = ",".join(f"({number}, 'n{number}', {number % 4})" for number in range(1, 12))
    path = make_database(
        "tied",
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, rank INT); INSERT INTO t VALUES {rows}, (12, 'z', 9)",
    )
    rules = GradingRules(perturb=True)
    gold = GoldQuery(database=path, sql="SELECT name FROM t ORDER BY rank DESC LIMIT 1")
    copy = run_on_copy(gold, rules)
    assert copy is not None
    assert not depends_on_ties(GoldQuery(database=copy.result.database, sql=gold.sql), rules)


def test_the_reward_reads_the_last_solution_of_a_response(shop):
    response = f"<solution>SELECT 1</solution> no: <solution>{GOLD}</solution>"
    assert execution_match_reward(GOLD, response, database=shop) == (1.0, True)
    assert execution_match_reward(GOLD, f"{response} <solution>SELECT 1</solution>", database=shop) == (0.0, False)


@pytest.mark.parametrize(
    ("response", "status"),
    [
        ("", "no_answer"),
        ("<solution></solution>", "no_answer"),
        ("</solution><solution>", "no_answer"),
        ("<solution>SELEC 1</solution>", "unparseable"),
        ("<solution>SELECT 1</solution>", "ok"),
        (f"<solution>{RUNAWAY}</solution>", "timeout"),
    ],
)
def test_the_reward_says_how_it_came_about(shop, response, status):
    outcome = execution_match_reward(GOLD, response, database=shop, seconds=0.3)
    assert (outcome.reward, outcome.verdict, outcome.status) == (0.0, False, status)


def test_the_reward_takes_tag_comparator_and_several_golds(shop):
    response = "<final>SELECT town FROM shop</final>"
    distinct = "SELECT DISTINCT town FROM shop"
    assert execution_match_reward(distinct, response, database=shop, solution_tag="final") == (0.0, False)
    arguments = {"database": str(shop), "solution_tag": "final", "comparator": "set"}
    assert execution_match_reward(distinct, response, **arguments) == (1.0, True)
    assert execution_match_reward(["SELECT 1", distinct], response, **arguments) == (1.0, True)


def test_the_reward_blames_the_ground_truth_where_it_does_not_run(shop):
    for gold in ("SELEC", "", []):
        with pytest.raises(BadGoldError):
            execution_match_reward(gold, "<solution>SELECT 1</solution>", database=shop)


@pytest.mark.parametrize(
    "wrong",
    [{"comparator": "x"}, {"now": "today"}, {"tolerance": -1.0}, {"seconds": 0.0}, {"solution_tag": "<x>"}],
)
def test_the_reward_refuses_wrong_parameters(shop, wrong):
    with pytest.raises(SetupError):
        execution_match_reward("SELECT 1", "<solution>SELECT 1</solution>", database=shop, **wrong)
