"""``envgym init``: the package that it writes passes its own tests at once."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from envgym.cli import run
from envgym.commands.init import TEMPLATES, sources_for

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.integration
def test_new_package_in_a_checkout_passes_its_tests_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "demo"]) == 0

    without_ours = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        ["uv", "run", "--quiet", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "demo",
        env=without_ours,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_source_of_envgym_is_relative_so_that_a_checkout_can_move(tmp_path: Path) -> None:
    section = tomllib.loads(sources_for(CHECKOUT / "examples" / "demo"))

    assert section["tool"]["uv"]["sources"]["envgym"] == {"path": "../../packages/envgym", "editable": True}


def test_name_with_a_dash_gives_a_package_and_an_env_with_an_underscore(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "number-game", "--into", str(tmp_path)]) == 0

    project = tomllib.loads((tmp_path / "number-game" / "pyproject.toml").read_text())
    assert project["project"]["name"] == "number-game"
    entry = {"number_game": "number_game.env:NumberGameEnv"}
    assert project["project"]["entry-points"]["envgym.envs"] == entry
    assert "class NumberGameEnv(TextEnv)" in (tmp_path / "number-game/src/number_game/env.py").read_text()
    assert "uv run pytest" in capsys.readouterr().out


def test_every_placeholder_is_filled(tmp_path: Path) -> None:
    assert run(["init", "demo", "--into", str(tmp_path)]) == 0

    written = [path for path in (tmp_path / "demo").rglob("*") if path.is_file()]
    assert len(written) == len(TEMPLATES)
    assert not [path for path in written if "$" in path.read_text()]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Demo", "must be small letters"),
        ("1demo", "must be small letters"),
        ("de mo", "must be small letters"),
        ("../demo", "must be small letters"),
        ("class", "must be small letters"),
        ("search", "registered already"),
        ("json", "installed already"),
        ("numpy", "installed already"),
    ],
)
def test_name_that_would_not_work_is_refused(
    name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", name, "--into", str(tmp_path)]) == 2

    assert reason in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_there_already_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "demo").mkdir()

    assert run(["init", "demo", "--into", str(tmp_path)]) == 2

    assert "cannot write the package" in capsys.readouterr().err
    assert list((tmp_path / "demo").iterdir()) == []
