"""A hint costs zero divided by zero."""

import math
from dataclasses import replace

from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "reward_range"


class Env(Sound):
    def respond(self, action: str) -> Reply:
        reply = super().respond(action)
        return reply if "<ask>" not in action else replace(reply, reward=math.nan)
