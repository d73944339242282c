"""Every key is documented, read by the code, and in docs/config.md; and there are not too many."""

import ast
import inspect
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import envgym_generator
import envgym_trainer
from envgym_trainer import config
from envgym_trainer.config import EvalConfig, SftConfig, TrainConfig
from envgym_trainer.config_reference import keys

SCHEMAS = (TrainConfig, EvalConfig, SftConfig)
SOURCE = Path(envgym_trainer.__path__[0])
SECTIONS = {name: found for name, found in vars(config).items() if inspect.isclass(found) and is_dataclass(found)}
PASSED_WHOLE = ("EngineSection", "GeneratorSection")
"""Handed to the generator as plain data, which reads them by name."""


def test_there_are_at_most_120_keys():
    assert len({key.name for schema in SCHEMAS for key in keys(schema)}) <= 120


def test_every_key_is_documented():
    assert [key.name for schema in SCHEMAS for key in keys(schema) if len(key.text) < 5] == []


def test_the_page_on_configuration_is_up_to_date():
    script = Path(__file__).parents[2] / "scripts" / "config_docs.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0


def test_every_key_is_read():
    wanted = {(name, field.name) for name, section in SECTIONS.items() for field in fields(section)}
    read = set(reads_in_source()) | set(references_in_yaml()) | set(names_read_by_the_generator())
    # A key that a section inherits counts as read where either class reads it.
    read |= {("EvalSection", field) for name, field in read if name == "TrainEvalSection"}
    read |= {("TrainEvalSection", field) for name, field in read if name == "EvalSection"}
    assert sorted(wanted - read) == []


def reads_in_source() -> Iterator[tuple[str, str]]:
    """(section class, field) of every attribute read from something that is known to be a section."""
    for path in SOURCE.glob("*.py"):
        if path.name != "config.py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    yield from reads_in(node)


def reads_in(scope: ast.ClassDef | ast.FunctionDef) -> Iterator[tuple[str, str]]:
    kinds: defaultdict[str, set[str]] = defaultdict(set, {"share": {"EnvShare"}, "shares[env]": {"EnvShare"}})
    for node in ast.walk(scope):
        if isinstance(node, ast.arg) and node.annotation is not None:
            kinds[node.arg] |= sections_named(ast.unparse(node.annotation))
    for _ in range(3):  # names may be given to names
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign):
                kinds[ast.unparse(node.targets[0])] |= kinds_of(node.value, kinds)
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            for kind in kinds_of(node.value, kinds):
                yield kind, node.attr


def sections_named(annotation: str) -> set[str]:
    # Estimators see the algorithm section through a protocol.
    return set(re.findall(r"\w+", annotation.replace("AdvantageSection", "AlgorithmSection"))) & set(SECTIONS)


def kinds_of(node: ast.expr, kinds: Mapping[str, set[str]]) -> set[str]:
    """The sections that an expression may be: a name, a field of a section, or what the command line gave."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "read_command_line":
        return sections_named(ast.unparse(node.args[1]))
    if isinstance(node, ast.Call) and ast.unparse(node).startswith("cast(Config, "):
        return {schema.__name__ for schema in SCHEMAS}
    if isinstance(node, ast.Attribute):
        types = [get_type_hints(SECTIONS[kind]).get(node.attr) for kind in kinds_of(node.value, kinds)]
        found = {kind.__name__ for kind in types if inspect.isclass(kind)} & set(SECTIONS)
        return found | kinds.get(ast.unparse(node), set())
    return kinds.get(ast.unparse(node), set())


def references_in_yaml() -> Iterator[tuple[str, str]]:
    """Keys that other keys follow, as ``${model.lr}``."""
    for path in SOURCE.glob("conf/**/*.yaml"):
        for section, key in re.findall(r"\$\{(\w+)\.(\w+)\}", path.read_text(encoding="utf-8")):
            yield get_type_hints(TrainConfig)[section].__name__, key


def names_read_by_the_generator() -> Iterator[tuple[str, str]]:
    named = {
        node.value if isinstance(node, ast.Constant) else node.attr
        for path in Path(envgym_generator.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    }
    for name in PASSED_WHOLE:
        yield from ((name, field.name) for field in fields(SECTIONS[name]) if field.name in named)
    yield from (("EnvShare", name) for name in ("arguments",) if name in named)
