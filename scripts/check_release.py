"""Refuse a release that would be wrong: ``uv run python scripts/check_release.py "envgym==0.1.0"``.

The tag must name one of the three packages, its version must be the package's own and the top entry of its
changelog, and no commit may carry the tag yet, except the one being released.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = {"envgym": "envgym", "envgym-generator": "generator", "envgym-trainer": "trainer"}


def problem(tag: str, root: Path = ROOT) -> str | None:
    """What is wrong with releasing under this tag; None where nothing is."""
    package, separator, version = tag.partition("==")
    if not separator or package not in FOLDERS:
        return f"tag {tag!r} must be <package>==<version>, with a package of {', '.join(FOLDERS)}"
    folder = root / "packages" / FOLDERS[package]
    declared = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if version != declared:
        return f"tag {tag} does not match the version {declared} in {folder.name}/pyproject.toml"
    top = re.search(r"^## \[?([^\s\]]+)", (folder / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if top is None or top.group(1) != version:
        found = top.group(1) if top else "nothing"
        return f"the changelog of {package} has {found} on top, not {version}"
    return _taken(tag, root)


def _taken(tag: str, root: Path) -> str | None:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True).stdout.strip()

    tagged, head = git("rev-parse", "--verify", "--quiet", f"refs/tags/{tag}^{{commit}}"), git("rev-parse", "HEAD")
    return f"tag {tag} exists already, at {tagged[:12]}" if tagged and tagged != head else None


if __name__ == "__main__":
    if message := problem(sys.argv[1]):
        sys.exit(message)
