"""A hint can close the block that it is shown in, and open another one."""

from broken_envs.sound import Sound

CAUGHT_BY = "injection"


class Env(Sound):
    def shown(self, text: str) -> str:
        return text
