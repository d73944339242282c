"""Deep nesting takes the whole process with it, as a parser in C may."""

import os
import signal

from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "never_raises"


class Env(Sound):
    def respond(self, action: str) -> Reply:
        if action.count("(") > 1_000:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().respond(action)
