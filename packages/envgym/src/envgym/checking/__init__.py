"""Checking an env for what Gymnasium's checker does not look at: secrets, rewards, seeds, deadlines, injections.

    >>> report = run_checks("search", only=["ground_truth"])
    >>> report.ok
    True

``check_env`` is for tests: it raises where a check fails. ``envgym check NAME`` prints the same as a table. The
env runs in a process of its own, which is killed where a call outlives the env's deadline.
"""

from collections.abc import Collection, Mapping
from typing import Any

from envgym.checking.report import CheckFailed, CheckReport, CheckResult
from envgym.checking.session import run_checks
from envgym.checking.source import Target
from envgym.checking.suite import check_names

__all__ = ["CheckFailed", "CheckReport", "CheckResult", "Target", "check_env", "check_names", "run_checks"]


def check_env(
    target: Target, arguments: Mapping[str, Any] | None = None, *, only: Collection[str] = ()
) -> CheckReport:
    """Check that an env keeps the promises of a text environment.

    Args:
        target: a registered name or ``package.module:Class``, a class, a function that returns an env, or an env.
            A class or a function must be importable by another process, so it cannot live in the script that runs.
        arguments: what name, class or function are called with.
        only: names of the checks to run, with those that they build on. All by default.

    Returns:
        The report, in which no check failed.

    Raises:
        CheckFailed: where one did. The text names the checks and what they found.
        SetupError: where the target cannot be imported, or does not take the arguments.
    """
    report = run_checks(target, arguments, only=only)
    if not report.ok:
        raise CheckFailed(str(report))
    return report
