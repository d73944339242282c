"""What environments and policies say to each other: messages, and the tasks that start an episode.

Standard library only. All classes are frozen, keyword-only and slotted, so they hash, pickle and compare by value.

Example: the messages of a two-turn episode, in order.

    >>> question = Message(role="user", content="Who founded Arvel?")
    >>> call = Message(role="assistant", content="<search>Arvel</search>")
    >>> result = Message(role="user", content="<information>Mirel founded Arvel.</information>")
    >>> answer = Message(role="assistant", content="<answer>Mirel</answer>")
    >>> [message.role for message in (question, call, result, answer)]
    ['user', 'assistant', 'user', 'assistant']
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[str, ...] = get_args(Role)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextPart:
    """A piece of text inside a message."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePart:
    """An image inside a message. Images are carried through; none of envgym's own envs use them yet."""

    media_type: str
    """MIME type, for example ``image/png``."""
    data: bytes
    """The encoded file, not pixels."""


Part: TypeAlias = TextPart | ImagePart


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A function call that an assistant message asks for."""

    id: str
    name: str
    arguments: str
    """JSON text, as the model wrote it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of a conversation.

    Raises:
        ValueError: if the role is not one of ``system user assistant tool``, or if ``tool_call_id`` is given
            on a message that is not a tool's.
    """

    role: Role
    content: str | tuple[Part, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    """Only on assistant messages."""
    tool_call_id: str | None = None
    """Only on tool messages: the call that this one answers."""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"role is {self.role!r}; it must be one of {', '.join(ROLES)}")
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"tool_calls on a {self.role!r} message; only an assistant message carries them")
        if self.tool_call_id is not None and self.role != "tool":
            raise ValueError(f"tool_call_id on a {self.role!r} message; only a tool message carries one")

    @property
    def text(self) -> str:
        """The text of the message: its content, or its text parts joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One problem that an env poses.

    ``answer`` is ground truth. It is kept out of ``repr`` here, and an env keeps it out of messages and ``info``.
    """

    id: str
    data: Mapping[str, Any]
    """The fields that the prompt may show, for example ``{"question": ...}``."""
    answer: Mapping[str, Any] = field(repr=False)
    """Ground truth, for example ``{"answers": [...]}``. Never shown to the model."""
