"""The checks before a release."""

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_release.py"


@pytest.fixture
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_release", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "packages" / "envgym"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "envgym"\nversion = "0.2.0"\n')
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n## [0.2.0] - 2026-12-01\n\n## [0.1.0]\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    return tmp_path


def test_matching_version_changelog_and_free_tag_are_accepted(check: ModuleType, repository: Path) -> None:
    assert check.problem("envgym==0.2.0", repository) is None


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ("v0.2.0", "must be <package>==<version>"),
        ("other==0.2.0", "must be <package>==<version>"),
        ("envgym==0.3.0", "does not match the version 0.2.0"),
    ],
)
def test_wrong_tags_are_refused(check: ModuleType, repository: Path, tag: str, message: str) -> None:
    assert message in check.problem(tag, repository)


def test_changelog_with_another_version_on_top_is_refused(check: ModuleType, repository: Path) -> None:
    (repository / "packages/envgym/CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [0.2.0]\n")
    assert "has Unreleased on top, not 0.2.0" in check.problem("envgym==0.2.0", repository)


def test_tag_on_an_earlier_commit_is_refused(check: ModuleType, repository: Path) -> None:
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "tag", "envgym==0.2.0"], check=True)
    assert check.problem("envgym==0.2.0", repository) is None  # the commit being released
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "second"], check=True)
    assert "exists already" in check.problem("envgym==0.2.0", repository)
