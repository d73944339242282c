# pyright: strict
"""Where models that are made at first use are kept, and what their names depend on."""

import hashlib
import json
import os
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


def cache_root() -> Path:
    """``$ENVGYM_CACHE``, or ``~/.cache/envgym``."""
    return Path(os.environ.get("ENVGYM_CACHE") or Path.home() / ".cache" / "envgym")


def _source_digest(recipe: str) -> str:
    """A digest of the source files beside the recipe: an edited recipe must not be answered from the cache."""
    module = recipe.partition(":")[0]
    try:
        spec = find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise SetupError(f"model.recipe={recipe} cannot be imported: there is no module {module}")
    digest = hashlib.sha256()
    for path in sorted(Path(spec.origin).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
