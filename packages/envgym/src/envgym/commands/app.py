"""Puts the commands together."""

from collections.abc import Sequence

import typer

from envgym.commands.check import check
from envgym.commands.eval import evaluate
from envgym.commands.init import init
from envgym.commands.list import list_envs
from envgym.commands.play import play
from envgym.commands.preflight import preflight
from envgym.commands.serve_retriever import serve_retriever

INTERRUPTED = 130

app = typer.Typer(
    name="envgym",
    help="Text environments for reinforcement learning of language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("list")(list_envs)
app.command("play")(play)
app.command("eval")(evaluate)
app.command("check")(check)
app.command("init")(init)
app.command("preflight")(preflight)
app.command("serve-retriever")(serve_retriever)


def run_app(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code.

    Raises:
        KeyboardInterrupt: after Ctrl-C, of which typer only leaves the exit code.
    """
    try:
        app(args=list(arguments), prog_name="envgym")
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            raise KeyboardInterrupt from stop
        return stop.code if isinstance(stop.code, int) else 0
    return 0
