"""Its turns come from a constant, whatever the user asks for."""

from broken_envs.sound import Sound

CAUGHT_BY = "max_turns"


class Env(Sound):
    def __init__(self, *, max_turns: int = 4) -> None:
        super().__init__(max_turns=4)
