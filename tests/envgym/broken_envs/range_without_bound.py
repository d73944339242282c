"""Its declared range has no upper bound."""

import math

from broken_envs.sound import Sound

CAUGHT_BY = "declarations"


class Env(Sound):
    reward_range = (0.0, math.inf)
