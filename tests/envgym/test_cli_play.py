"""``envgym play`` in a real terminal, driven by a script that types."""

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import envgym

WAIT_S = 60.0


class Terminal:
    """The far end of a pseudo-terminal: what a person would see and type."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.seen = ""

    def wait_for(self, text: str) -> str:
        """Read until ``text`` has been shown; return what came before it since the last call."""
        deadline = time.monotonic() + WAIT_S
        while text not in self.seen:
            ready, _, _ = select.select([self.descriptor], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not shown; the terminal shows {self.seen!r}"
            self.seen += os.read(self.descriptor, 65_536).decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, line: str) -> None:
        os.write(self.descriptor, line.encode() + b"\n")


def take_the_terminal() -> None:
    """Make standard input the controlling terminal, and let Ctrl-C end the game even if the tests ignore it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def playing(*arguments: str) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "envgym.cli", "play", *arguments]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
        start_new_session=True,
        preexec_fn=take_the_terminal,
    )
    os.close(theirs)
    try:
        yield Terminal(ours), process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def experts_actions(task: int) -> list[str]:
    env = envgym.make_env("search")
    env.reset(seed=0, options={"task": env.tasks("train")[task]})
    return list(env.demonstrate(np.random.default_rng(0)))


@pytest.mark.integration
def test_person_plays_search_to_its_end_in_a_terminal(tmp_path: Path) -> None:
    *searches, answer = experts_actions(0)

    with playing("search", "--task", "0", "--record", str(tmp_path / "mine.jsonl")) as (terminal, process):
        assert "An action ends with a line that holds </search> or </answer>" in terminal.wait_for("[1/4] ")
        for turn, search in enumerate(searches, 2):
            terminal.type(search)
            assert "<information>" in terminal.wait_for(f"[{turn}/4] ")
        terminal.type(answer)
        terminal.wait_for("episode over: return 1, success True")
        assert process.wait(timeout=WAIT_S) == 0

    line = json.loads((tmp_path / "mine.jsonl").read_text())
    assert (line["success"], len(line["rewards"])) == (True, len(searches) + 1)


@pytest.mark.integration
def test_action_of_several_lines_goes_on_until_an_empty_one() -> None:
    with playing("search", "--task", "0") as (terminal, _):
        terminal.wait_for("[1/4] ")
        terminal.type("I think")
        terminal.wait_for("... ")
        terminal.type("about it.")
        terminal.wait_for("... ")
        terminal.type("")
        terminal.wait_for("reward 0")


@pytest.mark.integration
def test_quitting_gives_the_episode_up() -> None:
    with playing("search") as (terminal, process):
        terminal.wait_for("[1/4] ")
        terminal.type(":quit")
        terminal.wait_for("episode given up")
        assert process.wait(timeout=WAIT_S) == 0


@pytest.mark.integration
def test_interrupt_ends_with_one_line_and_no_traceback() -> None:
    with playing("search") as (terminal, process):
        terminal.wait_for("[1/4] ")
        os.write(terminal.descriptor, b"\x03")
        shown = terminal.wait_for("stopped by Ctrl-C")
        assert process.wait(timeout=WAIT_S) == 130
        assert "Traceback" not in shown
