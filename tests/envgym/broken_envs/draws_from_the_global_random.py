"""Its hints come from the generator that all of Python shares."""

import random

from broken_envs.sound import Sound

from envgym import Task
from envgym.env import Observation

CAUGHT_BY = "seeds"


class Env(Sound):
    def open(self, task: Task) -> Observation:
        return super().open(task) + self.say(f"A first hint: {random.sample(task.data['hints'], 3)}")
