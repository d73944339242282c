"""It holds a function that has no name to pickle it by."""

from broken_envs.sound import Sound

CAUGHT_BY = "pickling"


class Env(Sound):
    def __init__(self, *, max_turns: int = 4) -> None:
        super().__init__(max_turns=max_turns)
        self.is_right = lambda word: word == self.task.answer["word"]
