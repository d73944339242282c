"""Every call returns the same dict, changed."""

from typing import Any

from broken_envs.sound import Sound

from envgym.env import Observation

CAUGHT_BY = "gymnasium_checker"


class Env(Sound):
    def __init__(self, *, max_turns: int = 4) -> None:
        super().__init__(max_turns=max_turns)
        self.info: dict[str, Any] = {}

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        *returned, info = super().step(action)
        self.info.clear()
        self.info.update(info)
        return (*returned, self.info)
