"""Its expert spells the answer in capitals, which the env does not accept."""

from collections.abc import Iterator

import numpy as np
from broken_envs.sound import Sound

CAUGHT_BY = "expert"


class Env(Sound):
    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        for _ in range(self.max_turns):
            yield f"<answer>{self.task.answer['word'].upper()}</answer>"
