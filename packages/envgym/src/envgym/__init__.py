"""envgym: Gymnasium-style text environments for reinforcement learning of language models."""

from envgym.env import Reply, TextEnv
from envgym.errors import BadGoldError, InfrastructureError, SetupError
from envgym.messages import ImagePart, Message, Part, Task, TextPart, ToolCall
from envgym.registration import (
    check_arguments,
    env_names,
    load_env_class,
    make_env,
    register_in_gymnasium,
)
from envgym.spaces import MessagesSpace, TextSpace

__all__ = [
    "BadGoldError",
    "ImagePart",
    "InfrastructureError",
    "Message",
    "MessagesSpace",
    "Part",
    "Reply",
    "SetupError",
    "Task",
    "TextEnv",
    "TextPart",
    "TextSpace",
    "ToolCall",
    "check_arguments",
    "env_names",
    "load_env_class",
    "make_env",
    "register_in_gymnasium",
]

register_in_gymnasium()
