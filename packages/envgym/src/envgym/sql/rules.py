"""How solutions are judged."""

import re
from dataclasses import dataclass

from envgym.errors import SetupError
from envgym.sql.comparator import TOLERANCE, Mode
from envgym.sql.table import FROZEN_NOW

GRADING_SECONDS = 10.0
_NOW = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class GradingRules:
    """How the solutions of an env are judged, whatever the task.

    Raises:
        SetupError: if a value is out of range.
    """

    comparator: Mode = "ordered"
    tolerance: float = TOLERANCE
    seconds: float = GRADING_SECONDS
    """Deadline of the solution, on each database that it runs on."""
    perturb: bool = False
    """Judge on a mutated copy as well."""
    seed: int = 0
    """Of the mutated copies."""
    now: str = FROZEN_NOW
    """What ``date('now')`` means."""

    def __post_init__(self) -> None:
        if self.tolerance < 0:
            raise SetupError(f"tolerance is {self.tolerance}; it must be at least 0")
        if self.seconds <= 0:
            raise SetupError(f"the grading deadline is {self.seconds} s; it must be above 0")
        if not _NOW.match(self.now):
            raise SetupError(f"now is {self.now!r}; it must be written as YYYY-MM-DD HH:MM:SS")
