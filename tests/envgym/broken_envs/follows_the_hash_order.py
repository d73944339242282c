"""It lists a set of texts, whose order differs between processes."""

from broken_envs.sound import Sound

from envgym import Task
from envgym.env import Observation

CAUGHT_BY = "processes"


class Env(Sound):
    def open(self, task: Task) -> Observation:
        letters = {hint[-2] for hint in task.data["hints"]}
        return super().open(task) + self.say(f"Its letters are {', '.join(letters)}.")
