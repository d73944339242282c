"""What may import what: envgym stands alone, the generator builds on it, the trainer knows the contract only."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"
SOURCES = {"envgym": "envgym", "generator": "envgym_generator", "trainer": "envgym_trainer"}
OURS = frozenset(SOURCES.values())


@dataclass(frozen=True)
class Import:
    package: str
    file: str
    """Path inside the import package."""
    module: str
    """The module, or the name of another way in, as in ``importlib.import_module("torch")``."""
    names: tuple[str, ...] = ()

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.package}/{self.file} imports {self.module} ({', '.join(self.names)})"


@cache
def imports_of(package: str) -> tuple[Import, ...]:
    return tuple(_walk(package))


def _walk(package: str) -> Iterator[Import]:
    root = PACKAGES / package / "src" / SOURCES[package]
    files = sorted(root.rglob("*.py"))
    assert files, f"no sources under {root}"
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for module, names in imported_by(node):
                yield Import(package, str(file.relative_to(root)), module, names)


def imported_by(node: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Imports anywhere in a file, also in functions, for type checkers, and by name."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, ()) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0 and node.module, "imports are absolute"
        yield node.module, tuple(alias.name for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
            yield node.args[0].value, ()


def files_importing(package: str, *tops: str) -> set[str]:
    return {found.file for found in imports_of(package) if found.top in tops}


def test_envgym_imports_no_sibling_and_no_trainer_library():
    assert not files_importing("envgym", "envgym_generator", "envgym_trainer")
    assert not files_importing("envgym", "vllm", "deepspeed", "hydra", "omegaconf", "pyarrow")


def test_envgym_imports_torch_transformers_and_faiss_in_the_dense_retriever_alone():
    assert files_importing("envgym", "torch", "transformers", "faiss") == {"retrieval/dense.py"}


@pytest.mark.parametrize(
    ("library", "where"),
    [
        ("httpx", ("retrieval/http.py", "evaluation/")),
        ("datasets", ("task_dataset.py",)),
        ("typer", ("commands/",)),
        ("rich", ("commands/",)),
        ("fastapi", ("retrieval/server.py",)),
        ("uvicorn", ("retrieval/server.py",)),
        ("bm25s", ("retrieval/bm25.py",)),
        ("math_verify", ("rewards/grading/",)),
    ],
)
def test_envgym_imports_an_optional_or_slow_library_in_its_place(library: str, where: tuple[str, ...]):
    files = files_importing("envgym", library)
    assert files and all(file.startswith(where) for file in files)


def test_generator_imports_public_names_of_envgym_and_nothing_of_the_trainer():
    assert not files_importing("generator", "envgym_trainer", "deepspeed", "hydra", "omegaconf")
    for found in imports_of("generator"):
        if found.top == "envgym":
            public = found.module in ("envgym", "envgym.errors", "envgym.messages", "envgym.worlds.search")
            assert public and not any(name.startswith("_") for name in found.names), str(found)


def test_the_contract_imports_the_standard_library_and_envgyms_errors_and_messages():
    modules = {found.module for found in imports_of("generator") if found.file == "types.py"}
    assert {m for m in modules if m.partition(".")[0] not in sys.stdlib_module_names} == {
        "envgym.errors",
        "envgym.messages",
    }
    messages = {found.top for found in imports_of("envgym") if found.file in ("messages.py", "errors.py")}
    assert messages <= sys.stdlib_module_names


def test_one_file_of_the_generator_imports_vllm_and_one_loads_models_with_transformers():
    assert len(files_importing("generator", "vllm")) <= 1
    assert loads_models("generator") == {"engines/transformers.py"}


def loads_models(package: str) -> set[str]:
    return {found.file for found in imports_of(package) if any(n.startswith("AutoModel") for n in found.names)}


def test_trainer_imports_the_contract_and_the_storage_format_and_nothing_else_of_ours():
    for found in imports_of("trainer"):
        if found.top in OURS - {"envgym_trainer"}:
            allowed = found.module in ("envgym_generator.types", "envgym_generator.storage")
            assert allowed or (found.module, found.names) == ("envgym_generator", ("storage",)), str(found)


def test_one_file_of_the_trainer_imports_deepspeed_and_none_imports_an_engine():
    assert files_importing("trainer", "deepspeed") == {"deepspeed_policy.py"}
    assert not files_importing("trainer", "vllm", "sglang")


def test_only_the_configuration_and_the_command_line_of_the_trainer_import_hydra():
    assert files_importing("trainer", "hydra", "omegaconf") <= {"config.py", "command_line.py", "cli.py"}


HEAVY = ("torch", "transformers", "vllm", "deepspeed", "hydra", "omegaconf", "pyarrow", "httpx", "rich", "bm25s")


@pytest.mark.parametrize("module", ["envgym", "envgym_generator.types", "envgym.cli"])
def test_importing_what_is_light_loads_nothing_heavy(module: str):
    program = f"import sys, {module}; print(*(name for name in {HEAVY} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == []


def test_importing_envgym_imports_no_env():
    program = "import sys, envgym; envgym.env_names(); print(*(m for m in sys.modules if 'envgym.envs' in m))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == []
