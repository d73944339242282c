"""Whatever the seed, it is always the same task."""

from typing import Any

from broken_envs.sound import Sound, make_tasks

from envgym.env import Observation

CAUGHT_BY = "seeds"


class Env(Sound):
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        return super().reset(seed=seed, options=options or {"task": make_tasks("train")[0]})
