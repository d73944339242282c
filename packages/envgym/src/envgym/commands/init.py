"""``envgym init``: write the package of a new env, which works and passes its tests from the start."""

import importlib.util
import keyword
import os
import re
import sys
import tomllib
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from envgym.commands.terminal import make_console
from envgym.errors import SetupError
from envgym.registration import env_names

TEMPLATES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "env.py": "src/$package/env.py",
    "package.py": "src/$package/__init__.py",
    "test_env.py": "tests/test_$package.py",
}
"""Template in ``envgym/new_env`` → file in the new package."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*\Z")


def init(
    name: Annotated[str, typer.Argument(help="Name of the env and its package, in small letters.")],
    into: Annotated[Path, typer.Option(help="The folder to make it in.")] = Path("."),
) -> None:
    """Write a new package with an env, its entry point, tests and README."""
    folder = write_package(name, into)
    console = make_console()
    console.print(f"wrote {folder}: the env is in src/{name.replace('-', '_')}/env.py; next:")
    console.print(f"  cd {folder}\n  uv run pytest\n  uv run envgym play {name.replace('-', '_')}")


def write_package(name: str, into: Path) -> Path:
    """Write the package and return its folder.

    Raises:
        SetupError: where the name cannot be used, or the folder is there already or cannot be written.
    """
    check_name(name)
    folder = into / name
    fields = fields_of(name, folder)
    try:
        folder.mkdir()
        for template, path in TEMPLATES.items():
            target = folder / Template(path).substitute(fields)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(filled(template, fields), encoding="utf-8")
    except OSError as error:
        raise SetupError(f"cannot write the package: {error}") from error
    return folder


def check_name(name: str) -> None:
    """Refuse a name that would not work as a package, as an env, or beside what is installed.

    Raises:
        SetupError: for such a name.
    """
    package = name.replace("-", "_")
    if not _NAME.match(name) or keyword.iskeyword(package):
        raise SetupError(f"the name {name!r} must be small letters and digits, joined by - or _")
    if package in env_names():
        raise SetupError(f"an env named {package!r} is registered already; choose another name")
    if package in sys.stdlib_module_names or importlib.util.find_spec(package) is not None:
        raise SetupError(f"a package named {package!r} is installed already; choose another name")


def fields_of(name: str, folder: Path) -> dict[str, str]:
    """What the templates are filled with."""
    package = name.replace("-", "_")
    major, minor = version("envgym").split(".")[:2]
    return {
        "distribution": name,
        "package": package,
        "class_name": "".join(part.capitalize() for part in package.split("_")) + "Env",
        "envgym_range": f">={major}.{minor},<{major}.{int(minor) + 1}",
        "sources": sources_for(folder),
    }


def sources_for(folder: Path) -> str:
    """Where envgym runs from a checkout: the section that points uv to it. Else nothing."""
    checkout = Path(__file__).resolve().parents[3]
    project = checkout / "pyproject.toml"
    if not project.is_file() or tomllib.loads(project.read_text()).get("project", {}).get("name") != "envgym":
        return ""
    path = os.path.relpath(checkout, folder.resolve())
    return f'\n[tool.uv.sources]\nenvgym = {{ path = "{path}", editable = true }}\n'


def filled(template: str, fields: dict[str, str]) -> str:
    """The text of a template with its fields filled in."""
    text = (files("envgym") / "new_env" / f"{template}.template").read_text(encoding="utf-8")
    return Template(text).substitute(fields)
