"""It takes a tag for granted."""

from collections.abc import Iterator

import numpy as np
from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "never_raises"


class Env(Sound):
    def respond(self, action: str) -> Reply:
        word = action.split("<answer>")[1].split("</answer>")[0]
        return super().respond(f"<answer>{word}</answer>")

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        yield f"<answer>{self.task.answer['word']}</answer>"
