"""What checking an env found: one result per check, and the report that holds them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "skipped"]


class Fault(Exception):
    """Raised by a check: what it found wrong, in one line or a few."""


class NotApplicable(Exception):
    """Raised by a check that has nothing to look at, with the reason."""


class CheckFailed(AssertionError):
    """Raised by ``check_env`` where an env has a fault. Its text is the report."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The outcome of one check."""

    name: str
    status: Status
    promise: str
    """What the check holds an env to, in one line."""
    detail: str = ""
    """What was found wrong, or why the check was skipped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckReport:
    """The outcomes of all checks of one env, in the order in which they ran."""

    target: str
    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The results of the checks that failed."""
        return tuple(result for result in self.results if result.status == "failed")

    @property
    def summary(self) -> str:
        """One line, for example ``search: 25 passed, 1 skipped``."""
        counts = [(status, self._count(status)) for status in ("failed", "passed", "skipped")]
        return f"{self.target}: " + ", ".join(f"{count} {status}" for status, count in counts if count)

    def _count(self, status: str) -> int:
        return sum(result.status == status for result in self.results)

    def __str__(self) -> str:
        return "\n".join([self.summary, *_lines(self.results)])


def _lines(results: Iterable[CheckResult]) -> Iterable[str]:
    for result in results:
        yield f"  {result.status:7}  {result.name:17}  {result.promise}"
        for line in result.detail.splitlines():
            yield f"{'':30}{line}"
