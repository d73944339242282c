"""Using up its own turns is called a truncation."""

from typing import Any

from broken_envs.sound import Sound

from envgym.env import Observation

CAUGHT_BY = "ends"


class Env(Sound):
    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, bool(info.get("success")), terminated and not info["success"], info
