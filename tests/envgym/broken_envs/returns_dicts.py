"""Its messages are plain dicts."""

from broken_envs.sound import Sound

from envgym.env import Observation

CAUGHT_BY = "observations"


class Env(Sound):
    def say(self, text: str) -> Observation:
        return ({"role": "user", "content": text},)
