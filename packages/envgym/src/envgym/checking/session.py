"""Running the checks in a process that is watched, and killed where the env outlives its deadline."""

import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envgym.checking.elsewhere import HERE
from envgym.checking.report import CheckReport, CheckResult, Status
from envgym.checking.source import Source, Target, make_source
from envgym.checking.subject import CallEnded, CallStarted, Subject
from envgym.checking.suite import CHECKS, Check, result_of, run_check
from envgym.checking.watched_process import ProcessDied, Send, Silence, WatchedProcess
from envgym.errors import SetupError

SILENCE_S = 300.0
"""Between two calls of the env a check may take so long."""
DEADLINE = "deadline"

Progress = Callable[[str | CheckResult], None]
"""Called with the name of a check when it starts and with its result when it is done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckStarted:
    """A check begins now."""

    name: str


def run_checks(
    target: Target,
    arguments: Mapping[str, Any] | None = None,
    *,
    only: Collection[str] = (),
    progress: Progress | None = None,
) -> CheckReport:
    """Check an env, and report all that was found.

    Args:
        target: a registered name or ``package.module:Class``, a class, a function that returns an env, or an env.
        arguments: what name, class or function are called with.
        only: names of the checks to run; those that they need run as well. All by default.
        progress: told what happens while it happens.

    Raises:
        SetupError: where the target cannot be imported, or does not take the arguments.
    """
    checks = chosen(only)
    try:
        source = make_source(target, arguments or {})
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        return CheckReport(target=type(target).__name__, results=tuple(_unpicklable(checks, error)))
    session = _Session(checks, progress or (lambda event: None))
    session.run(source)
    return CheckReport(target=source.label, results=tuple(session.results))


def chosen(only: Collection[str]) -> list[Check]:
    """The checks of these names and those that they need, in order.

    Raises:
        SetupError: for a name that no check has.
    """
    by_name = {check.name: check for check in CHECKS}
    if unknown := [name for name in only if name not in by_name and name != DEADLINE]:
        raise SetupError(f"there is no check {unknown[0]!r}; the checks are: {', '.join((*by_name, DEADLINE))}")
    wanted: set[str] = set()
    waiting = [name for name in (only or by_name) if name in by_name]
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting.extend(by_name[name].needs)
    return [check for check in CHECKS if check.name in wanted]


def send_results(send: Send, source: Source, names: Sequence[str]) -> None:
    """In the watched process: run the checks of these names, and send what happens."""
    subject = Subject(source, send)
    unmet: set[str] = set()
    for check in (check for check in CHECKS if check.name in names):
        send(CheckStarted(name=check.name))
        result = run_check(check, subject, unmet)
        if result.status == "failed" or unmet.intersection(check.needs):
            unmet.add(check.name)
        send(result)


class _Session:
    """What is known so far about an env that is being checked."""

    def __init__(self, checks: Sequence[Check], progress: Progress) -> None:
        self.results: list[CheckResult] = []
        self._waiting = list(checks)
        self._progress = progress
        self._call: CallStarted | None = None

    def run(self, source: Source) -> None:
        """Run the checks in a process of their own, and add the result of the deadline."""
        names = [check.name for check in self._waiting]
        with WatchedProcess(send_results, source, names, environment=HERE) as process:
            try:
                while True:
                    self._take(process.receive(self._call.allowed_s if self._call else SILENCE_S))
            except EOFError:
                self._add(_deadline("passed"))
            except Silence:
                self._break_off_silent()
            except ProcessDied as death:
                self._break_off_dead(death)

    def _take(self, event: object) -> None:
        match event:
            case CallStarted():
                self._call = event
            case CallEnded():
                self._call = None
            case CheckStarted(name=name):
                self._progress(name)
            case CheckResult():
                self._waiting.pop(0)
                self._add(event)
            case _:
                raise TypeError(f"the checking process sent {event!r}")

    def _add(self, result: CheckResult) -> None:
        self.results.append(result)
        self._progress(result)

    def _break_off_silent(self) -> None:
        if self._call is None:
            self._add(result_of(self._waiting.pop(0), "failed", f"it did not come to an end in {SILENCE_S:g} s"))
            self._add(_deadline("passed"))
        else:
            late = f"{self._call.call} had not returned after {self._call.allowed_s:g} s"
            self._add(_deadline("failed", late))
        self._skip_the_rest("the process was killed")

    def _break_off_dead(self, death: ProcessDied) -> None:
        where = f" in {self._call.call}" if self._call else ""
        self._add(result_of(self._waiting.pop(0), "failed", f"{death}{where}"))
        self._add(_deadline("passed"))
        self._skip_the_rest("the process died")

    def _skip_the_rest(self, reason: str) -> None:
        while self._waiting:
            self._add(result_of(self._waiting.pop(0), "skipped", reason))


def _deadline(status: Status, detail: str = "") -> CheckResult:
    promise = "Every call returns within the env's deadline_s"
    return CheckResult(name=DEADLINE, status=status, promise=promise, detail=detail)


def _unpicklable(checks: Sequence[Check], error: Exception) -> Iterator[CheckResult]:
    """The results for an instance that cannot be sent to the process that would check it."""
    for check in checks:
        if check.name == "pickling":
            yield result_of(check, "failed", f"{type(error).__name__}: {error}")
        else:
            yield result_of(check, "skipped", "needs pickling, since an instance was given")
