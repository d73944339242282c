"""The folder of a run: its config, one line of metrics per step, rollouts, evaluations and checkpoints."""

import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from envgym_generator import storage
from envgym_generator.types import GeneratorOutput, SetupError
from envgym_trainer.errors import RunError


class RunFolder:
    """A folder made for one run. Whatever has its name in it is whole: it is written aside, then renamed."""

    def __init__(self, path: Path) -> None:
        """Name a folder without making it."""
        self.path = path

    def make(self, config_yaml: str) -> None:
        """Make the folder, with the resolved config in it.

        Raises:
            SetupError: if it cannot be made, for example because it is there already.
        """
        try:
            self.path.mkdir(parents=True)
        except OSError as error:
            raise SetupError(f"run_dir={self.path} cannot be made: {error.strerror}") from error
        (self.path / "config.yaml").write_text(config_yaml, encoding="utf-8")

    def save_rollouts(self, step: int, output: GeneratorOutput) -> Path:
        """Write ``rollouts/step_<n>.parquet``: what step n was trained on."""
        return self._save_output("rollouts", step, output)

    def save_eval(self, version: int, output: GeneratorOutput) -> Path:
        """Write ``eval/step_<n>.parquet``: what policy version n played on held-out tasks."""
        return self._save_output("eval", version, output)

    def _save_output(self, kind: str, number: int, output: GeneratorOutput) -> Path:
        target = self.path / kind / f"step_{number}.parquet"
        target.parent.mkdir(exist_ok=True)
        storage.save(output, target)
        return target

    def save_checkpoint(self, version: int, write: Callable[[Path], None]) -> Path:
        """Write ``checkpoints/step_<n>/``: ``write`` gets a path aside to make and fill, which is then renamed."""
        target = self.path / "checkpoints" / f"step_{version}"
        if target.is_dir():
            return target
        aside = target.with_name(f".{target.name}.partial")
        target.parent.mkdir(exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        write(aside)
        aside.rename(target)
        return target

    def append_metrics(self, row: Mapping[str, float | int]) -> None:
        """Add a line to ``metrics.jsonl``, all of it or nothing, and see it to the disk.

        Raises:
            RunError: for a value that is not finite, which JSON cannot hold.
        """
        line = metrics_line(row)
        descriptor = os.open(self.path / "metrics.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def metrics_line(row: Mapping[str, float | int]) -> bytes:
    r"""One row as a line of JSON.

    >>> metrics_line({"step": 1, "reward/mean": 0.5})
    b'{"step": 1, "reward/mean": 0.5}\n'
    """
    for key, value in row.items():
        if not math.isfinite(value):
            raise RunError(f"metric {key} is {value}; metrics must be finite")
    return (json.dumps(dict(row)) + "\n").encode()


def default_path(*parts: str) -> Path:
    """``runs/<parts>-<time>``, with what a folder name should not hold replaced."""
    name = "-".join(re.sub(r"[^\w.+-]+", "_", part) for part in parts)
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
