"""The pool of grading processes: deadlines, threads, forks, deaths, and what is left behind."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envgym.errors import InfrastructureError
from envgym.rewards import math_expression_reward
from envgym.rewards.grading.pool import PATIENCE, GradingPool, GradingTimeoutError, shared_pool

pytestmark = pytest.mark.integration

ENDLESS = "1000000000!"
DEADLINE_S = 1.0


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> GradingPool:
    """The pool that the rewards of this process share, as its start is slow, with a short deadline."""
    pool = shared_pool()
    monkeypatch.setattr(pool, "deadline_s", DEADLINE_S)
    return pool


def children(process_id: int) -> list[int]:
    """The processes that descend from one, itself aside."""
    found = Path(f"/proc/{process_id}/task/{process_id}/children")
    direct = [int(child) for child in found.read_text().split()] if found.exists() else []
    return [*direct, *(grandchild for child in direct for grandchild in children(child))]


def is_gone_within(process_id: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stat = Path(f"/proc/{process_id}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


def workers_of(pool: GradingPool) -> list[int]:
    assert pool.ask([("x", "x+1")]) == "different"
    nurseries = [child for child in children(os.getpid()) if children(child)]
    return [worker for nursery in nurseries for worker in children(nursery)]


def test_comparison_past_its_deadline_is_killed_and_the_next_is_served(pool: GradingPool):
    pool.ask([("x", "x")])
    start = time.monotonic()
    with pytest.raises(GradingTimeoutError):
        pool.ask([("x+5", ENDLESS)])
    assert time.monotonic() - start < PATIENCE * DEADLINE_S + 1
    assert pool.ask([("x+x", "2x")]) == "same"


def test_every_thread_gets_its_own_answer_while_others_time_out(pool: GradingPool):
    def grade(number: int) -> str:
        try:
            return pool.ask([("x+5", ENDLESS if number % 5 == 0 else f"x+{number}")])
        except GradingTimeoutError:
            return "timeout"

    with ThreadPoolExecutor(max_workers=8) as threads:
        given = list(threads.map(grade, range(1, 13)))
    expected = {5: "timeout", 10: "timeout"}
    assert given[4] == "timeout" or given[4] == expected[5]
    assert given == [expected.get(number, "same" if number == 5 else "different") for number in range(1, 13)]


def test_worker_that_died_is_replaced(pool: GradingPool):
    for worker in workers_of(pool):
        os.kill(worker, signal.SIGKILL)
    assert pool.ask([("x+x", "2x")]) == "same"


def test_pool_whose_first_process_was_killed_starts_another(pool: GradingPool):
    pool.ask([("x", "x")])
    for nursery in [child for child in children(os.getpid()) if children(child)]:
        os.kill(nursery, signal.SIGKILL)
        assert is_gone_within(nursery, 5)
    with pytest.raises(GradingTimeoutError):
        pool.ask([("x+5", ENDLESS)])
    assert pool.ask([("x+x", "2x")]) == "same"


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false"])
def test_pool_that_cannot_start_is_an_infrastructure_error(python: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(InfrastructureError, match="start"):
        GradingPool().ask([("x", "x")])


def test_memory_of_a_worker_is_bounded(pool: GradingPool):
    for worker in workers_of(pool):
        limits = Path(f"/proc/{worker}/limits").read_text()
        line = next(line for line in limits.splitlines() if line.startswith("Max address space"))
        assert int(line.split()[3]) <= 1 << 30


def test_formula_that_breaks_its_process_has_the_status_error():
    outcome = math_expression_reward("5", f"<answer>{'1' + '0' * 1500}!</answer>")
    assert (outcome, outcome.status) == ((0.0, False), "error")


def test_closed_pool_says_so():
    pool = GradingPool()
    pool.close()
    with pytest.raises(InfrastructureError, match="closed"):
        pool.ask([("x", "x")])


FORK = """
child = os.fork()
if child == 0:
    os._exit(0 if reward("x+x", "<answer>3x-x</answer>").reward == 1 else 1)
assert reward("x+x", "<answer>x*2</answer>").reward == 1
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
OWNER = """
import os, sys, threading, time
from envgym.rewards import math_expression_reward as reward
reward("x+x", "<answer>2x</answer>")
{fork}
threading.Thread(target=reward, args=("x+5", "<answer>1000000000!</answer>"), daemon=True).start()
time.sleep(0.2)
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(("fork", "kill"), [(FORK, False), ("", True)], ids=["forked, then left", "killed"])
def test_a_forked_copy_grades_too_and_nothing_outlives_the_process(fork: str, kill: bool):
    owner = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", OWNER.format(fork=fork)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout and owner.stdout.readline() == "ready\n"
    offspring = children(owner.pid)
    assert len(offspring) >= 2
    if kill:
        owner.kill()
    _, errors = owner.communicate("" if kill else "\n", timeout=60)
    assert all(is_gone_within(process, 30) for process in offspring)
    assert errors == ""


def test_importing_rewards_loads_no_computer_algebra():
    heavy = "{'sympy', 'math_verify', 'latex2sympy2_extended', 'antlr4', 'torch'}"
    code = f"import sys, envgym.rewards; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
