"""It plays a task of its own choice, whichever it is given."""

from typing import Any

from broken_envs.sound import Sound

from envgym.env import Observation

CAUGHT_BY = "task_option"


class Env(Sound):
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        return super().reset(seed=seed)
