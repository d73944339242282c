"""Its info carries the task; its repr hides the answer, a pickled info does not."""

from typing import Any

from broken_envs.sound import Sound

from envgym.env import Observation

CAUGHT_BY = "ground_truth"


class Env(Sound):
    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        *returned, info = super().step(action)
        return (*returned, {**info, "task": self.task})
