"""Every instance opens a file that nobody closes."""

import os
from typing import ClassVar, TextIO

from broken_envs.sound import Sound

CAUGHT_BY = "closing"


class Env(Sound):
    opened: ClassVar[list[TextIO]] = []

    def __init__(self, *, max_turns: int = 4) -> None:
        super().__init__(max_turns=max_turns)
        self.opened.append(open(os.devnull))  # noqa: SIM115  (the fault)
