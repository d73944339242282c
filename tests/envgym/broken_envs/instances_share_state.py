"""Its counter belongs to the class."""

from typing import ClassVar

from broken_envs.sound import Sound

from envgym import Reply, Task
from envgym.env import Observation

CAUGHT_BY = "many_instances"


class Env(Sound):
    faults: ClassVar[list[str]] = []

    def open(self, task: Task) -> Observation:
        self.faults.clear()
        return super().open(task)

    def not_solved(self, text: str) -> Reply:
        self.faults.append(text)
        return super().not_solved(f"{text} Faults so far: {len(self.faults)}.")
