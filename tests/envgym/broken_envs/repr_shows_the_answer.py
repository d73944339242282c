"""Its repr shows the whole task, and a log shows the repr."""

from broken_envs.sound import Sound

CAUGHT_BY = "ground_truth"


class Env(Sound):
    def __repr__(self) -> str:
        return f"Env({vars(self).get('task') and dict(self.task.answer)})"
