"""Its last words name the answer, and so they may stand in a transcript that is trained on."""

from broken_envs.sound import Sound

from envgym import Reply

CAUGHT_BY = "ground_truth"


class Env(Sound):
    def not_solved(self, text: str) -> Reply:
        told = f" The word was {self.task.answer['word']}." if self.turns_left == 0 else ""
        return super().not_solved(text + told)
