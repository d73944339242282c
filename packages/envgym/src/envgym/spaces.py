"""Gymnasium spaces of text: ``TextSpace`` for actions, ``MessagesSpace`` for observations.

Gymnasium's own ``Text`` space excludes ``<``, which every tag starts with.
"""

from typing import Any, cast

from gymnasium.spaces import Space

from envgym.messages import Message

_ALPHABET = "abcdefghijklmnopqrstuvwxyz <>/=.,?!#0123456789\n"


class TextSpace(Space[str]):
    """All strings of at most ``max_length`` characters. Sampled strings are short and printable."""

    def __init__(self, max_length: int = 1_000_000, seed: int | None = None) -> None:
        """Accept strings of at most ``max_length`` characters; ``seed`` seeds ``sample``."""
        self.max_length = max_length
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Text does not flatten to an array."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw a printable string of at most 32 characters. Masks are not supported and are ignored."""
        length = int(self.np_random.integers(0, min(32, self.max_length) + 1))
        return "".join(_ALPHABET[i] for i in self.np_random.integers(0, len(_ALPHABET), size=length))

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a string that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and other.max_length == self.max_length

    def __repr__(self) -> str:
        return f"TextSpace(max_length={self.max_length})"


class MessagesSpace(Space[tuple[Message, ...]]):
    """All tuples of ``Message``, the empty one included."""

    def __init__(self, seed: int | None = None) -> None:
        """``seed`` seeds ``sample``."""
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Messages do not flatten to an array."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> tuple[Message, ...]:
        """Draw one user message of printable text. Masks are not supported and are ignored."""
        letters = self.np_random.integers(0, len(_ALPHABET), size=8)
        return (Message(role="user", content="".join(_ALPHABET[i] for i in letters)),)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a tuple of messages."""
        return isinstance(x, tuple) and all(isinstance(item, Message) for item in cast("tuple[Any, ...]", x))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessagesSpace)

    def __repr__(self) -> str:
        return "MessagesSpace()"
