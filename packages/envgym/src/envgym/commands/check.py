"""``envgym check``: whether an env keeps its promises."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from envgym.checking import CheckReport, CheckResult, run_checks
from envgym.commands.argument import ArgOptions, EnvName, read_arguments
from envgym.commands.terminal import make_console, make_table, printable

STYLES = {"passed": "green", "failed": "bold red", "skipped": "yellow"}


def check(
    env: EnvName,
    arg: ArgOptions = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Run this check and those that it builds on. May be repeated.")
    ] = None,
) -> None:
    """Check an env beyond Gymnasium's own checker, and print what was found. Exit code 1 where a check failed."""
    progress = make_console(stderr=True)
    with progress.status("starting") as status:

        def tell(event: str | CheckResult) -> None:
            if isinstance(event, str):
                status.update(f"checking {event}")

        report = run_checks(env, read_arguments(arg), only=only or (), progress=tell)
    print_report(make_console(), report)
    raise typer.Exit(0 if report.ok else 1)


def print_report(console: Console, report: CheckReport) -> None:
    """Print the table of results, and the line that sums it up."""
    console.print(table_of(report.results))
    console.print(report.summary)


def table_of(results: Sequence[CheckResult]) -> Table:
    """One row per check: its name, whether it passed, and what it holds an env to or what was found."""
    table = make_table("check", "result", "")
    for result in results:
        words = [result.promise, *([printable(result.detail)] if result.detail else [])]
        table.add_row(result.name, Text(result.status, style=STYLES[result.status]), "\n".join(words))
    return table
