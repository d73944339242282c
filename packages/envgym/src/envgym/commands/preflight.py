"""``envgym preflight``: look at the gold queries of ``txt2sql`` tasks before anything is trained on them."""

from collections import Counter

import typer

from envgym.commands.argument import ArgOptions, EnvName, read_arguments
from envgym.commands.terminal import make_console, make_table, printable
from envgym.errors import SetupError
from envgym.registration import make_env


def preflight(env: EnvName, arg: ArgOptions = None) -> None:
    """Name the golds of txt2sql tasks that fail, are empty, or depend on ties or on the clock.

    With --arg perturb=true, also those that no mutated copy of the database tells from a constant. Exit code 1
    where there is any.
    """
    from envgym.envs.txt2sql import Txt2SqlEnv
    from envgym.sql.preflight import preflight as findings_in

    built = make_env(env, **read_arguments(arg))
    if not isinstance(built, Txt2SqlEnv):
        raise SetupError(f"preflight looks at SQL queries, and {env!r} has none; it takes txt2sql")
    console = make_console()
    counts: Counter[str] = Counter()
    for finding in findings_in(built.source, built.rules):
        counts[finding.fault] += 1
        console.print(printable(str(finding)), soft_wrap=True)
    table = make_table("fault", "golds")
    for fault, count in counts.most_common():
        table.add_row(fault, str(count))
    console.print(table if counts else "no fault found")
    raise typer.Exit(1 if counts else 0)
