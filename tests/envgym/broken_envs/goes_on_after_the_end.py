"""A step after the end is answered instead of refused."""

from typing import Any

from broken_envs.sound import Sound
from gymnasium.error import ResetNeeded

from envgym.env import Observation

CAUGHT_BY = "step_after_end"


class Env(Sound):
    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        try:
            return super().step(action)
        except ResetNeeded:
            return (), 0.0, True, False, {"reward_terms": {}, "success": None, "metrics": {}}
