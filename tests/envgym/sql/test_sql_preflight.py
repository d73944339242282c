import pytest

from envgym.envs.txt2sql import Txt2SqlEnv
from envgym.sql.preflight import MEANINGS, preflight

pytestmark = pytest.mark.integration

GOLDS = {
    "SELECT count(*) FROM sale": [],
    "SELECT missing FROM sale": ["fails"],
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 60000) SELECT i FROM n": ["too large"],
    "SELECT name FROM shop WHERE town = 'Nowhere'": ["empty", "constant"],
    "SELECT name FROM shop ORDER BY town": ["ties"],
    "SELECT count(*) FROM sale WHERE day < date('now')": ["clock"],
    "SELECT day FROM sale WHERE 0 AND day < current_date": ["empty", "clock", "constant"],
    "SELECT 5": ["constant"],
}


def test_each_faulty_gold_is_named_with_its_fault(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks(*GOLDS), perturb=True)
    findings = list(preflight(env.source, env.rules))
    found = {f"tasks-{number}": [] for number in range(len(GOLDS))}
    for finding in findings:
        found[finding.task_id].append(finding.fault)
        assert str(finding).startswith(f"{finding.task_id} on shop: {MEANINGS[finding.fault]}")
    assert list(found.values()) == list(GOLDS.values())
    assert "no such column: missing" in str(findings[0])


def test_constants_are_looked_for_only_with_perturb(shop_tasks):
    env = Txt2SqlEnv(**shop_tasks("SELECT 5"))
    assert list(preflight(env.source, env.rules)) == []
