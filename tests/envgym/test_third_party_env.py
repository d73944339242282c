"""The example of a third party's package passes its tests where nothing but envgym and it is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.integration
def test_third_party_package_passes_its_tests_in_an_environment_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "examples" / "third_party_env"
    made_there = shutil.ignore_patterns(".venv", "uv.lock")
    shutil.copytree(CHECKOUT / "examples" / "third_party_env", place, ignore=made_there)
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "envgym").symlink_to(CHECKOUT / "packages" / "envgym")
    without_ours = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}

    done = subprocess.run(
        ["uv", "run", "--quiet", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules", "src", "tests"],
        cwd=place,
        env=without_ours,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
