"""Each observation is the whole conversation so far."""

from dataclasses import replace

from broken_envs.sound import Sound

from envgym import Reply, Task
from envgym.env import Observation

CAUGHT_BY = "observations"


class Env(Sound):
    def open(self, task: Task) -> Observation:
        self.history = super().open(task)
        return self.history

    def respond(self, action: str) -> Reply:
        reply = super().respond(action)
        self.history += reply.observation
        return replace(reply, observation=self.history)
