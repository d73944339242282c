"""It seeds the generator that all of Python shares, under the feet of whoever else draws from it."""

import random

from broken_envs.sound import Sound

from envgym import Task
from envgym.env import Observation

CAUGHT_BY = "global_random"


class Env(Sound):
    def open(self, task: Task) -> Observation:
        random.seed(int(self.np_random.integers(1_000_000)))
        return super().open(task) + self.say(f"A first hint: {random.choice(task.data['hints'])}")
