"""The command ``envgym``. It needs the extra ``cli``, and says so where that is missing."""

import sys
from collections.abc import Sequence

from envgym.errors import InfrastructureError, SetupError
from envgym.extra import missing_extra


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0; 1 where a check failed or the machinery broke; 2 for wrong input."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    try:
        return _run(arguments)
    except SetupError as error:
        return _stop(error, 2)
    except InfrastructureError as error:
        return _stop(error, 1)
    except KeyboardInterrupt:
        return _stop("stopped by Ctrl-C", 130)


def _run(arguments: Sequence[str]) -> int:
    try:
        from envgym.commands.app import run_app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("typer", "rich"):
            raise
        raise missing_extra("cli", "the command line", error) from error
    return run_app(arguments)


def _stop(message: object, code: int) -> int:
    print(f"envgym: {' '.join(str(message).split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
