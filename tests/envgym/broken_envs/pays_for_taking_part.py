"""Any action earns a little."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "garbage"


class Env(Sound):
    def not_solved(self, text: str) -> Reply:
        return replace(super().not_solved(text), reward=0.01)

    def respond(self, action: str) -> Reply:
        reply = super().respond(action)
        return replace(reply, reward=0.9) if reply.success else reply

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        yield f"<answer>{self.task.answer['word']}</answer>"

    reward_range = (0.0, 0.9)
