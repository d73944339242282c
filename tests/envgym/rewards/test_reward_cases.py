"""Every acceptance case of the reward library, from the main thread and from a worker thread."""

import json
import operator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from envgym.errors import BadGoldError
from envgym.rewards import combine_reward_functions, load_reward

FUNCTIONS = {
    "bbox_giou_reward": "bbox_giou",
    "exact_answer_alphanumeric_reward": "exact_alnum",
    "format_reward": "format",
    "geo3k_reward": "geo3k",
    "math_expression_reward": "math_expr",
}
BOUNDS = {"<": operator.lt, ">": operator.gt}


def cases(file: str) -> list[Any]:
    rows = json.loads((Path(__file__).parent / file).read_text())
    return [pytest.param(row, id=f"{row['function']}-{index}") for index, row in enumerate(rows)]


def run(case: dict[str, Any]) -> tuple[float, bool | None]:
    kwargs = case["kwargs"]
    if case["function"] == "combine_reward_functions":
        members = [(load_reward(m["name"], m["kwargs"]), m["weight"]) for m in kwargs["reward_functions"]]
        return combine_reward_functions(members)(case["ground_truth"], case["response"])
    return load_reward(FUNCTIONS[case["function"]])(case["ground_truth"], case["response"], **kwargs)


def run_in_thread(case: dict[str, Any]) -> tuple[float, bool | None]:
    with ThreadPoolExecutor(max_workers=1) as threads:
        return threads.submit(run, case).result()


def check(give: Any, expected_reward: float | str, expected_verdict: bool | None) -> None:
    if expected_reward == "error":
        with pytest.raises((BadGoldError, ValueError)):
            give()
        return
    reward, verdict = give()
    assert verdict is expected_verdict
    if isinstance(expected_reward, str):
        bound, _, limit = expected_reward.partition(" ")
        assert BOUNDS[bound](reward, float(limit))
    else:
        assert reward == pytest.approx(expected_reward, abs=1e-6)


@pytest.mark.parametrize("call", [run, run_in_thread], ids=["main", "thread"])
@pytest.mark.parametrize("case", cases("reward_cases.json"))
def test_case_gives_what_peers_give(case: dict[str, Any], call: Any):
    check(partial(call, case), case["expect_reward"], case["expect_correct"])


@pytest.mark.parametrize("call", [run, run_in_thread], ids=["main", "thread"])
@pytest.mark.parametrize("case", cases("reward_quirks.json"))
def test_case_that_peers_get_wrong_is_right(case: dict[str, Any], call: Any):
    check(partial(call, case), case["right_reward"], case["right_correct"])
