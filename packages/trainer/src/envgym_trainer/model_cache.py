# pyright: strict
"""Where models that are made at first use are kept, and what their names depend on."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from envgym_generator.types import SetupError

PACKAGES = ("envgym", "envgym-generator", "envgym-trainer")


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmStart:
    """Which model to make. Equal ones have the same folder."""

    name: str
    recipe: str
    """``package.module:function``, see ``envgym_trainer.warm_start``."""
    env: str
    seed: int

    @property
    def folder(self) -> Path:
        """Where the finished model is, or will be."""
        return cache_root() / "models" / f"{self.name}-{self.env}-{self._digest()}"

    def _digest(self) -> str:
        facts = {
            "recipe": self.recipe,
            "source": _source_digest(self.recipe),
            "env": self.env,
            "seed": self.seed,
            "versions": {package: version(package) for package in PACKAGES},
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """Which model to unpack or convert. It does not depend on an env."""

    name: str
    convert: str
    """``package.module:function``, called with an empty folder to write a model folder into."""

    @property
    def folder(self) -> Path:
        """Where the finished model is, or will be."""
        source = _module_file(self.convert, "model.convert").read_bytes()
        digest = hashlib.sha256(self.convert.encode() + b"\0" + source).hexdigest()[:12]
        return cache_root() / "models" / f"{self.name}-{digest}"


def build_aside(target: Path, build: Callable[[Path], Path]) -> None:
    """Make a folder so that, once it is there, it is whole.

    Args:
        target: the folder to be.
        build: gets an empty folder beside it, and returns what in there is to become ``target``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        build(work).rename(target)
    except OSError:
        if not target.is_dir():  # it is there where another process was faster, and then it is as good
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def cache_root() -> Path:
    """``$ENVGYM_CACHE``, or ``~/.cache/envgym``."""
    return Path(os.environ.get("ENVGYM_CACHE") or Path.home() / ".cache" / "envgym")


def _source_digest(recipe: str) -> str:
    """A digest of the source files beside the recipe: an edited recipe must not be answered from the cache."""
    digest = hashlib.sha256()
    for path in sorted(_module_file(recipe, "model.recipe").parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _module_file(dotted_path: str, key: str) -> Path:
    """The source file of a dotted path's module, which is not imported."""
    module = dotted_path.partition(":")[0]
    try:
        spec = find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise SetupError(f"{key}={dotted_path} cannot be imported: there is no module {module}")
    return Path(spec.origin)
