"""The faults told apart everywhere: wrong input, broken infrastructure, an unreadable gold, a wrong reward."""

import math


class SetupError(ValueError):
    """Wrong input from the user: a path, a name, a value, a malformed line.

    The message is one line that says what is wrong and what to do. Commands print it without a traceback and
    exit with code 2.
    """


class InfrastructureError(RuntimeError):
    """The machinery failed, not the model: a retriever is down, a worker died, a gold query does not run.

    A rollout in which this is raised counts as failed. It is never scored as reward 0.
    """


class BadGoldError(ValueError):
    """A ground truth that cannot be read. It is never the model's fault, so it is raised and not scored."""


class RewardError(ValueError):
    """An env gave a reward that is not finite or leaves its ``reward_range``: a fault of the env's code.

    Attributes:
        reward: the reward of the one action that led here.
    """

    def __init__(self, message: str, reward: float = math.nan) -> None:
        super().__init__(message)
        self.reward = reward
