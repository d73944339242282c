"""The page for authors names every check with its promise, and every command."""

from pathlib import Path

import pytest

from envgym.checking.suite import CHECKS, Check
from envgym.cli import run

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "authors.md").read_text()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_check_stands_on_the_page_with_its_promise(check: Check) -> None:
    assert f"| `{check.name}` | {check.promise} |" in PAGE


def test_every_command_stands_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0

    shown = capsys.readouterr().out.partition("Commands:")[2].split("\n")
    commands = [line.split()[0] for line in shown if line.startswith("  ") and not line.startswith("   ")]
    assert len(commands) == 7
    assert not [command for command in commands if f"| `envgym {command} " not in PAGE.replace("list`", "list `")]
