"""Each wrong answer of the right form earns a bonus: four wrong ones, then right, beat right."""

from dataclasses import replace

from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "right_first"


class Env(Sound):
    def respond(self, action: str) -> Reply:
        reply = super().respond(action)
        return reply if reply.success or "<answer>" not in action else replace(reply, reward=0.2)
