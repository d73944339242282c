"""The last info does not say whether the task was solved."""

from typing import Any

from broken_envs.sound import Sound

from envgym.env import Observation

CAUGHT_BY = "last_info"


class Env(Sound):
    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        *returned, info = super().step(action)
        info.pop("success", None)
        return (*returned, info)
