"""Its word list is not where it looks for it."""

from pathlib import Path

from broken_envs.sound import Sound

CAUGHT_BY = "builds"


class Env(Sound):
    def __init__(self, *, max_turns: int = 4) -> None:
        super().__init__(max_turns=max_turns)
        self.words = Path("no/such/words.txt").read_text().split()
