"""The worker's side of ``env_process``: ``python -m envgym_generator.env_worker FD`` plays episodes over a socket.

The first message names the env and its arguments, and is answered once the env is built and its data loaded. Each
further message is (seat number, method, *arguments) and each answer ("ok", value) or (kind of failure, report).
"""

import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from envgym import TextEnv, make_env
from envgym_generator.env_host import Episode, describe_failure


def main() -> None:
    """Serve the connection whose file descriptor is the first argument, until its other end closes."""
    pipe = Connection(int(sys.argv[1]))
    os.dup2(2, 1)  # what an env prints must not mix with what the parent writes
    try:
        name, arguments = pipe.recv()
        build = _answered(pipe, lambda: _prepare(name, arguments))
        if build is not None:
            serve(pipe, build)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return


def _prepare(name: str, arguments: dict[str, Any]) -> Callable[[], TextEnv]:
    """Load what all instances share, and return what builds one."""
    env = make_env(name, **arguments)
    for split in ("train", "eval"):
        len(env.tasks(split))
    env.close()
    return lambda: make_env(name, **arguments)


def _answered(pipe: Connection, start: Callable[[], Callable[[], TextEnv]]) -> Callable[[], TextEnv] | None:
    try:
        build = start()
    except Exception as error:
        failure = describe_failure(error)
        pipe.send((failure.kind, failure.report))
        return None
    pipe.send(("ok", None))
    return build


def serve(pipe: Connection, build: Callable[[], TextEnv]) -> None:
    """Answer calls until the connection closes."""
    episodes: dict[int, Episode] = {}
    while True:
        number, method, *values = pipe.recv()
        try:
            pipe.send(("ok", _answer(episodes, number, method, values, build)))
        except Exception as error:
            failure = describe_failure(error)
            pipe.send((failure.kind, failure.report))


def _answer(
    episodes: dict[int, Episode], number: int, method: str, values: list[Any], build: Callable[[], TextEnv]
) -> Any:
    if method == "reset":
        episodes[number] = Episode(build())
        return episodes[number].reset(*values)
    if method == "step":
        return episodes[number].step(*values)
    if method == "demonstrate":
        return episodes[number].demonstrate()
    if number in episodes:
        episodes.pop(number).close()
    return None


if __name__ == "__main__":
    main()
