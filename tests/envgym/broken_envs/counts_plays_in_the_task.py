"""It keeps a note in the task, which other episodes are played on as well."""

from broken_envs.sound import Sound

from envgym import Task
from envgym.env import Observation

CAUGHT_BY = "untouched_tasks"


class Env(Sound):
    def open(self, task: Task) -> Observation:
        task.data["plays"] = task.data.get("plays", 0) + 1
        return super().open(task) + self.say(f"It was played {task.data['plays']} times.")
