"""``check_env``: every registered env passes, and each broken env is caught by the check that names its fault."""

import os
import pickle
import runpy
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import envgym
from envgym.checking import CheckFailed, CheckReport, check_names, run_checks
from envgym.checking.secrecy import MARK, holds
from envgym.checking.session import DEADLINE

HERE = Path(__file__).parent
NO_FAULT = ("conftest", "sound")
BROKEN = sorted(path.stem for path in (HERE / "broken_envs").glob("*.py") if path.stem not in NO_FAULT)


@pytest.fixture(autouse=True)
def broken_envs_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


def fault_of(name: str) -> str:
    return str(runpy.run_path(str(HERE / "broken_envs" / f"{name}.py"))["CAUGHT_BY"])


@pytest.mark.integration
@pytest.mark.parametrize("name", envgym.env_names())
def test_registered_env_passes_every_check(name: str) -> None:
    envgym.check_env(name)


@pytest.mark.integration
def test_env_without_a_fault_passes_and_skips_nothing() -> None:
    report = envgym.check_env("broken_envs.sound:Sound")

    assert {result.status for result in report.results} == {"passed"}
    assert [result.name for result in report.results] == [*check_names(), DEADLINE]


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[CheckReport]]]:
    """The report of each broken env that a selected test asks for, made two at a time."""
    asked = [item for item in request.session.items if isinstance(item, pytest.Function)]
    names = [item.callspec.params["name"] for item in asked if "reports" in item.fixturenames]
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(max_workers=2) as pool:
        patch.syspath_prepend(str(HERE))
        yield {name: pool.submit(run_checks, f"broken_envs.{name}:Env") for name in names}


@pytest.mark.integration
@pytest.mark.parametrize("name", BROKEN)
def test_broken_env_is_caught_by_exactly_the_check_that_names_its_fault(
    name: str, reports: dict[str, Future[CheckReport]]
) -> None:
    report = reports[name].result()

    assert [result.name for result in report.failed] == [fault_of(name)], str(report)


def test_every_check_has_a_broken_env_that_it_catches() -> None:
    assert {fault_of(name) for name in BROKEN} == {*check_names(), DEADLINE}


@pytest.mark.integration
def test_check_env_raises_with_the_name_of_the_check_and_what_it_found() -> None:
    with pytest.raises(CheckFailed, match=r"(?s)1 failed.*right_first .*wrong_then_right.*earned 1\.2"):
        envgym.check_env("broken_envs.pays_for_detours:Env", only=["right_first"])


@pytest.mark.integration
def test_call_that_hangs_inside_c_code_is_given_up_at_the_deadline_and_killed() -> None:
    start = time.monotonic()

    report = run_checks("broken_envs.hangs_in_a_regex:Env")

    assert "had not returned after 3 s" in report.failed[0].detail
    assert time.monotonic() - start < 60, "the expression itself would run for years"
    assert not [line for line in commands_of_children() if "watched_process" in line]


def commands_of_children() -> list[str]:
    """Command lines of the living children of this process."""
    lines: list[str] = []
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        for child in (task / "children").read_text().split():
            lines.append(Path(f"/proc/{child}/cmdline").read_text().replace("\0", " "))
    return lines


@pytest.mark.integration
def test_reward_scheme_that_pays_detours_is_named_as_exploitable() -> None:
    report = run_checks("gsm8k", {"scheme": "per_turn_format"})

    assert "right_first" in {result.name for result in report.failed}


@pytest.mark.integration
def test_env_whose_expert_cannot_play_these_tasks_is_checked_without_it() -> None:
    report = envgym.check_env("broken_envs.sound:WithoutScript")

    assert {result.name for result in report.results if result.status == "skipped"} == {
        "expert",
        "stop_strings",
        "right_first",
    }


@pytest.mark.integration
def test_class_with_arguments_is_checked_with_them() -> None:
    from broken_envs.sound import Sound

    assert envgym.check_env(Sound, {"max_turns": 3}, only=["ends"]).target == "Sound"


@pytest.mark.integration
def test_function_of_a_module_is_checked() -> None:
    from broken_envs.sound import Sound

    assert envgym.check_env(Sound.of_three_turns, only=["ends"]).ok


@pytest.mark.integration
def test_instance_is_checked_through_copies_of_it() -> None:
    from broken_envs.sound import Sound

    report = envgym.check_env(Sound(max_turns=3), only=["max_turns", "expert"])

    assert {result.name: result.status for result in report.results}["max_turns"] == "skipped"


def test_instance_that_cannot_be_pickled_fails_that_check_alone() -> None:
    from broken_envs.holds_a_lambda import Env

    report = run_checks(Env())

    assert [result.name for result in report.failed] == ["pickling"]
    assert {result.status for result in report.results} == {"failed", "skipped"}


def test_function_without_a_name_is_refused_with_the_way_out() -> None:
    with pytest.raises(envgym.SetupError, match="define it in a module"):
        run_checks(lambda: envgym.make_env("search"))


def test_unknown_check_is_refused_with_the_known_ones() -> None:
    with pytest.raises(envgym.SetupError, match=r"no check 'speed'; the checks are: builds, .*, deadline"):
        run_checks("broken_envs.sound:Sound", only=["speed"])


def test_unknown_argument_is_refused_before_a_process_starts() -> None:
    with pytest.raises(envgym.SetupError, match="takes no argument 'turns'; it takes: max_turns, split"):
        run_checks("broken_envs.sound:Sound", {"turns": 3})


@pytest.mark.integration
def test_what_an_env_prints_does_not_disturb_the_checks(capfd: pytest.CaptureFixture[str]) -> None:
    envgym.check_env("broken_envs.sound:Talkative", only=["ends"])

    assert capfd.readouterr().out == ""


def test_answer_inside_a_task_is_found_though_its_repr_hides_it() -> None:
    task = envgym.Task(id="0", data={}, answer={"word": MARK})

    assert MARK not in repr(task)
    assert holds({"seen": [task]}, MARK)


def test_reward_error_keeps_its_reward_when_pickled() -> None:
    copy: Any = pickle.loads(pickle.dumps(envgym.RewardError("too much", 1.5)))

    assert (str(copy), copy.reward) == ("too much", 1.5)
