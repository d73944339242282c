"""Its info carries the answer, for debugging."""

from typing import Any

from broken_envs.sound import Sound

from envgym.env import Observation

CAUGHT_BY = "ground_truth"


class Env(Sound):
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return observation, {**info, "answer": dict(self.task.answer)}
