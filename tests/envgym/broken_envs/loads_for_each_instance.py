"""Every instance parses the word list again."""

import json

from broken_envs.sound import Sound

CAUGHT_BY = "instance_cost"


LEXICON = json.dumps([f"word{number}" for number in range(100_000)])


class Env(Sound):
    def __init__(self, *, max_turns: int = 4) -> None:
        super().__init__(max_turns=max_turns)
        self.lexicon = json.loads(LEXICON)
