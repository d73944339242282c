"""The command ``envgym``: what it prints, its exit codes, and what it says where something is missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import envgym
from envgym.cli import run

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def broken_envs_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


def test_list_names_every_registered_env_and_its_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(envgym.env_names())
    assert "envgym.envs.search:SearchEnv" in "".join(lines)


def test_list_imports_no_env() -> None:
    script = (
        "import sys; from envgym.cli import run; code = run(['list']); "
        "sys.exit(code or 'envgym.envs.search' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


def test_list_with_arguments_shows_the_constructor_of_each_env(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--arguments"]) == 0

    assert "    max_turns: int = 4" in capsys.readouterr().out.splitlines()


def test_unknown_env_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", "serach"]) == 2

    captured = capsys.readouterr()
    assert captured.err.startswith("envgym: unknown env 'serach'; the registered envs are: ")
    assert captured.err.count("\n") == 1


def test_unknown_argument_of_an_env_is_one_line_that_names_those_that_it_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["eval", "search", "--policy", "expert", "--arg", "turns=3"]) == 2

    error = capsys.readouterr().err
    assert "takes no argument 'turns'; it takes: corpus, " in error
    assert error.count("\n") == 1


def test_argument_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", "search", "--arg", "max_turns"]) == 2

    assert capsys.readouterr().err == "envgym: --arg 'max_turns' must be KEY=VALUE\n"


def test_argument_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", "search", "--arg", "max_turns=1", "--arg", "max_turns=2"]) == 2

    assert capsys.readouterr().err == "envgym: --arg max_turns is given twice\n"


@pytest.mark.parametrize("split", ["test", ""])
def test_unknown_split_is_refused(split: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "search", "--policy", "expert", "--split", split]) == 2

    assert "it must be train or eval" in capsys.readouterr().err


def test_task_out_of_range_is_refused_with_the_range(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", "search", "--task", "1000000"]) == 2

    assert "has the tasks 0 to " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("typer", ["list"], "cli"),
        ("rich", ["list"], "cli"),
        ("httpx", ["eval", "search", "--base-url", "http://127.0.0.1:1", "--model", "m"], "http"),
    ],
)
def test_missing_extra_is_one_line_that_names_it(module: str, arguments: list[str], extra: str) -> None:
    script = (
        f"import sys; sys.modules[{module!r}] = None; from envgym.cli import run; sys.exit(run({arguments!r}))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 2
    assert f"pip install 'envgym[{extra}]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_cli_module_imports_neither_typer_nor_rich() -> None:
    script = "import envgym.cli, sys; sys.exit(bool({'typer', 'rich', 'httpx'} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


@pytest.mark.integration
def test_check_prints_a_table_and_exits_with_0_where_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "broken_envs.sound:Sound", "--only", "expert"]) == 0

    out = capsys.readouterr().out
    assert "expert" in out
    assert out.splitlines()[-1].startswith("broken_envs.sound:Sound: ")


@pytest.mark.integration
def test_check_exits_with_1_and_says_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["check", "broken_envs.overrides_max_turns:Env", "--only", "max_turns", "--arg", "max_turns=6"]) == 1
    )

    out = capsys.readouterr().out
    assert "failed" in out
    assert "built with max_turns=5, its max_turns is 4" in out


def test_check_of_an_unknown_check_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "search", "--only", "speed"]) == 2

    assert "there is no check 'speed'; the checks are: builds, " in capsys.readouterr().err


def test_eval_of_the_expert_solves_every_task_and_writes_one_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "episodes.jsonl"

    assert run(["eval", "search", "--policy", "expert", "--tasks", "5", "--out", str(out)]) == 0

    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["task_index"] for line in lines] == [0, 1, 2, 3, 4]
    assert all(line["success"] and line["return"] == 1.0 and line["error"] is None for line in lines)
    assert "1.000" in capsys.readouterr().out


def test_eval_of_the_empty_policy_solves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "search", "--policy", "empty", "--tasks", "3"]) == 0

    assert "success rate" in capsys.readouterr().out


def test_eval_twice_with_the_same_seed_writes_the_same_episodes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        command = ["eval", "search", "--policy", "random", "--tasks", "3", "--samples", "2", "--seed", "4"]
        assert run([*command, "--out", str(tmp_path / name)]) == 0

    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_eval_never_overwrites_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept").write_text("kept")

    assert run(["eval", "search", "--policy", "empty", "--tasks", "1", "--out", str(tmp_path / "kept")]) == 2

    assert (tmp_path / "kept").read_text() == "kept"
    assert "cannot write a new file" in capsys.readouterr().err


def test_eval_needs_a_model_or_a_scripted_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "search"]) == 2

    assert "give --base-url URL and --model NAME, or a scripted policy" in capsys.readouterr().err


def test_eval_takes_either_a_model_or_a_scripted_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "search", "--policy", "expert", "--model", "m"]) == 2

    assert "exclude each other" in capsys.readouterr().err


def test_preflight_of_an_env_without_sql_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["preflight", "search"]) == 2

    assert "'search' has none; it takes txt2sql" in capsys.readouterr().err
