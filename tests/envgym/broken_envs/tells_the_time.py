"""It shows the date and the hour."""

from datetime import datetime

from broken_envs.sound import Sound

from envgym import Task
from envgym.env import Observation

CAUGHT_BY = "processes"


class Env(Sound):
    def open(self, task: Task) -> Observation:
        return super().open(task) + self.say(f"It is {datetime.now():%d %B, %H} o'clock.")
