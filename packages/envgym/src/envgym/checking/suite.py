"""All checks in their order, and what each builds on.

A check runs only where those that it needs have passed. So an env with one fault fails one check, the one that is
named after the fault, and not everything that the fault makes impossible.
"""

import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass

from envgym.checking import declaration, hygiene, interface, recorded, repeated, secrecy
from envgym.checking.elsewhere import processes
from envgym.checking.report import CheckResult, Fault, NotApplicable, Status
from envgym.checking.subject import Subject


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A check function, and the names of those that must pass first."""

    function: Callable[[Subject], None]
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function's name, which names what it checks."""
        return self.function.__name__

    @property
    def promise(self) -> str:
        """The first line of the function's docstring: what an env is held to."""
        return (self.function.__doc__ or "").partition("\n")[0].rstrip(".").replace("``", "")


PLAYABLE = ("builds", "declarations", "tasks", "never_raises", "observations", "ends")
STEADY = (*PLAYABLE, "reward_range", "step_after_end", "untouched_tasks", "seeds", "global_random")

CHECKS = (
    Check(function=declaration.builds),
    Check(function=declaration.declarations, needs=("builds",)),
    Check(function=declaration.tasks, needs=("builds",)),
    Check(function=declaration.max_turns, needs=("builds",)),
    Check(function=declaration.instance_cost, needs=("builds",)),
    Check(function=recorded.never_raises, needs=("builds", "declarations", "tasks")),
    Check(function=recorded.observations, needs=("builds", "declarations", "tasks")),
    Check(function=recorded.ends, needs=PLAYABLE[:-1]),
    Check(function=recorded.last_info, needs=PLAYABLE),
    Check(function=recorded.reward_range, needs=PLAYABLE),
    Check(function=recorded.garbage, needs=(*PLAYABLE, "reward_range")),
    Check(function=recorded.expert, needs=(*PLAYABLE, "reward_range")),
    Check(function=recorded.stop_strings, needs=(*PLAYABLE, "expert")),
    Check(function=recorded.right_first, needs=(*PLAYABLE, "reward_range", "garbage")),
    Check(function=declaration.task_option, needs=PLAYABLE),
    Check(function=interface.step_after_end, needs=PLAYABLE),
    Check(function=hygiene.untouched_tasks, needs=PLAYABLE),
    Check(function=repeated.seeds, needs=(*PLAYABLE, "untouched_tasks")),
    Check(function=hygiene.global_random, needs=(*PLAYABLE, "seeds")),
    Check(function=repeated.fresh_start, needs=STEADY),
    Check(function=repeated.many_instances, needs=(*STEADY, "fresh_start")),
    Check(function=processes, needs=STEADY),
    Check(function=repeated.pickling, needs=STEADY),
    Check(function=secrecy.injection, needs=STEADY),
    Check(function=secrecy.ground_truth, needs=PLAYABLE),
    Check(function=hygiene.closing, needs=STEADY),
    Check(function=interface.gymnasium_checker, needs=(*STEADY, "fresh_start")),
    Check(function=interface.vector_envs, needs=(*STEADY, "many_instances", "pickling", "gymnasium_checker")),
)


def check_names() -> tuple[str, ...]:
    """The names of all checks that run inside the watched process, in order."""
    return tuple(check.name for check in CHECKS)


def run_check(check: Check, subject: Subject, unmet: Collection[str]) -> CheckResult:
    """Run one check, or skip it.

    Args:
        check: the check.
        subject: the env under check.
        unmet: names of the checks that failed, or were skipped because of one that failed.
    """
    missing = [name for name in check.needs if name in unmet]
    if missing:
        return result_of(check, "skipped", f"needs {missing[0]}")
    try:
        check.function(subject)
    except Fault as fault:
        return result_of(check, "failed", str(fault))
    except NotApplicable as reason:
        return result_of(check, "skipped", str(reason))
    except Exception as error:  # the env broke in a call that no check has looked at before
        return result_of(check, "failed", _where(error))
    return result_of(check, "passed")


def result_of(check: Check, status: Status, detail: str = "") -> CheckResult:
    """The outcome of this check."""
    return CheckResult(name=check.name, status=status, promise=check.promise, detail=detail)


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} (in {frame.name}, line {frame.lineno} of {frame.filename})"
