"""``envgym list``: the registered envs."""

import inspect
from typing import Annotated

import typer

from envgym.commands.terminal import make_console, make_table
from envgym.env import TextEnv
from envgym.errors import SetupError
from envgym.registration import env_names, env_target, load_env_class


def list_envs(
    arguments: Annotated[
        bool, typer.Option("--arguments", help="Import the envs and show their arguments.")
    ] = False,
) -> None:
    """List the registered envs. Nothing is imported, unless their arguments are asked for."""
    console = make_console()
    if not arguments:
        table = make_table("name", "class")
        for name in env_names():
            table.add_row(name, env_target(name))
        console.print(table)
        return
    for name in env_names():
        console.print(f"{name}  {_summary(name)}")
        for line in _arguments(name):
            console.print(f"    {line}")


def _summary(name: str) -> str:
    env_class = _load(name)
    if isinstance(env_class, SetupError):
        return str(env_class)
    return (inspect.getdoc(env_class) or "").partition("\n")[0]


def _arguments(name: str) -> list[str]:
    env_class = _load(name)
    if isinstance(env_class, SetupError):
        return []
    parameters = inspect.signature(env_class).parameters.values()
    return [
        str(parameter) if len(str(parameter)) <= 100 else f"{parameter.name} = ..." for parameter in parameters
    ]


def _load(name: str) -> type[TextEnv] | SetupError:
    """The class; or why it cannot be imported, so that one broken package does not hide the others."""
    try:
        return load_env_class(name)
    except SetupError as error:
        return error
