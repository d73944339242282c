"""Its regular expression backtracks for ever, inside C code that no signal interrupts."""

import re

from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "deadline"


class Env(Sound):
    deadline_s = 3.0

    def respond(self, action: str) -> Reply:
        if re.match(r"(a+)+$", action):
            return self.not_solved("That is a sigh.")
        return super().respond(action)
