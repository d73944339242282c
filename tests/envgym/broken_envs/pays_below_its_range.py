"""A wrong answer costs more than the range admits."""

from dataclasses import replace

from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "reward_range"


class Env(Sound):
    def respond(self, action: str) -> Reply:
        reply = super().respond(action)
        return replace(reply, reward=-0.5) if "<answer>" in action and not reply.success else reply
