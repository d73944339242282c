"""It goes on after the turns that it announced."""

from typing import Any

from broken_envs.sound import Sound

from envgym.env import Observation

CAUGHT_BY = "ends"


class Env(Sound):
    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated and not info["success"]:
            self.reset(options={"task": self.task})
            terminated = False
        return observation, reward, terminated, truncated, info
