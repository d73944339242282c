"""It builds the prompt as one text and cuts it at the template's tokens."""

from broken_envs.sound import Sound

from envgym import Message, Task
from envgym.env import Observation

CAUGHT_BY = "injection"


class Env(Sound):
    def open(self, task: Task) -> Observation:
        text = "".join(message.text for message in super().open(task))
        return tuple(Message(role="user", content=part) for part in text.split("<|im_start|>"))
