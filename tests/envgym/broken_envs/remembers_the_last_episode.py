"""What was wrong in one episode is counted on in the next."""

from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "fresh_start"


class Env(Sound):
    def __init__(self, *, max_turns: int = 4) -> None:
        super().__init__(max_turns=max_turns)
        self.faults = 0

    def not_solved(self, text: str) -> Reply:
        self.faults += 1
        return super().not_solved(f"{text} Faults so far: {self.faults}.")
