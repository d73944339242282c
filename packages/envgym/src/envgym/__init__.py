"""envgym: Gymnasium-style text environments for reinforcement learning of language models."""

from typing import TYPE_CHECKING

from envgym.env import Reply, TextEnv
from envgym.errors import BadGoldError, InfrastructureError, RewardError, SetupError
from envgym.messages import ImagePart, Message, Part, Task, TextPart, ToolCall
from envgym.registration import (
    check_arguments,
    env_names,
    load_env_class,
    make_env,
    register_in_gymnasium,
)
from envgym.spaces import MessagesSpace, TextSpace

if TYPE_CHECKING:
    from envgym.checking import check_env

__all__ = [
    "BadGoldError",
    "ImagePart",
    "InfrastructureError",
    "Message",
    "MessagesSpace",
    "Part",
    "Reply",
    "RewardError",
    "SetupError",
    "Task",
    "TextEnv",
    "TextPart",
    "TextSpace",
    "ToolCall",
    "check_arguments",
    "check_env",
    "env_names",
    "load_env_class",
    "make_env",
    "register_in_gymnasium",
]

register_in_gymnasium()


def __getattr__(name: str) -> object:
    """Import ``check_env`` when it is asked for: envs are checked in tests, not where they are played."""
    if name == "check_env":
        from envgym.checking import check_env

        return check_env
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
