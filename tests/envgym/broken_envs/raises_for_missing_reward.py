"""An unrewarded turn gives None."""

from dataclasses import replace

from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "never_raises"


class Env(Sound):
    def not_solved(self, text: str) -> Reply:
        return replace(super().not_solved(text), reward=None)
