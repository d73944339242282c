"""Its expert waits for ever."""

import time
from collections.abc import Iterator

import numpy as np
from broken_envs.sound import Sound

CAUGHT_BY = "deadline"


class Env(Sound):
    deadline_s = 2.0

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        time.sleep(600)
        yield from super().demonstrate(rng)
