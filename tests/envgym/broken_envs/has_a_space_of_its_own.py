"""Its space equals no other, so no vector env takes two copies."""

from broken_envs.sound import Sound

from envgym.spaces import MessagesSpace

CAUGHT_BY = "vector_envs"


class OwnSpace(MessagesSpace):
    def __eq__(self, other: object) -> bool:
        return self is other


class Env(Sound):
    def __init__(self, *, max_turns: int = 4) -> None:
        super().__init__(max_turns=max_turns)
        self.observation_space = OwnSpace()
