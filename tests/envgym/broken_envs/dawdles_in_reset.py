"""It waits for something that does not come."""

import time

from broken_envs.sound import Sound

from envgym import Task
from envgym.env import Observation

CAUGHT_BY = "deadline"


class Env(Sound):
    deadline_s = 2.0

    def open(self, task: Task) -> Observation:
        time.sleep(600)
        return super().open(task)
