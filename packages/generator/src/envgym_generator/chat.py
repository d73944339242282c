"""A tokenizer's chat template as ids: the prompt, what closes a turn, and what leads to the next one.

The template is asked what it writes, and only its own special tokens become control tokens. Text of a message is
encoded with ``split_special_tokens``, so a document that contains ``<|im_end|>`` stays a document.

A rollout only ever appends ids. That is right as long as the template does not rewrite an assistant turn later on;
``ChatFormat`` checks this once per tokenizer and refuses those that do.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from envgym import Message, SetupError, TextPart

Piece = tuple[str, bool]
"""(text, whether the template wrote it); False for the text of a message."""

_QUESTION = Message(role="user", content="Is it so?")
_PROBES = ("It is.", "<think>\nLet me see.\n</think>\n\nIt is.")
"""What an assistant may say while a template is probed; some templates drop the thinking of earlier turns."""


class ChatFormat:
    """Turns messages into ids as a chat template would, without ever re-encoding what was sampled."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        """Learn the template of a tokenizer.

        Args:
            tokenizer: with a chat template.
            name: of the model, for messages.

        Raises:
            SetupError: if there is no template, or if it does not keep an earlier turn as it was.
        """
        if not tokenizer.chat_template:
            raise SetupError(f"the tokenizer of {name} has no chat template; take an instruct model or add one")
        self._tokenizer = tokenizer
        self._name = name
        special = sorted({str(token) for token in _special_tokens(tokenizer)}, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, special)) + ")" if special else r"(?!)()")
        self._special_ids = {token: tokenizer.convert_tokens_to_ids(token) for token in special}
        self._closing = self._pieces_behind_assistant((), generation=False)
        self.closing_ids = self._encode(self._closing)
        """What the template writes behind an assistant's text."""
        self._check_append_only()

    @property
    def closing_special_ids(self) -> tuple[int, ...]:
        """The first closing id, where it is a special token: sampling it ends a turn."""
        first = self.closing_ids[:1]
        return first if set(first) <= set(self._special_ids.values()) else ()

    def prompt_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Encode the opening messages, up to where the assistant begins."""
        return self._encode(self._pieces(messages, generation=True))

    def close_turn(self, sampled: Sequence[int]) -> tuple[int, ...]:
        """The closing ids that a turn did not sample itself.

        A turn that ends with the template's own end of turn needs what comes behind that; any other turn (a stop
        string, a length, another EOS id) needs all of it.
        """
        if self.closing_ids and sampled and sampled[-1] == self.closing_ids[0]:
            return self.closing_ids[1:]
        return self.closing_ids

    def continuation(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Encode what stands behind a closed turn: the messages, and the opening of the next assistant turn."""
        pieces = self._pieces_behind_assistant(messages, generation=True)
        closing, behind = _text(self._closing), _drop(pieces, len(_text(self._closing)))
        if not _text(pieces).startswith(closing):
            raise SetupError(f"the chat template of {self._name} closes a turn in more than one way")
        return self._encode(behind)

    def _pieces_behind_assistant(self, messages: Sequence[Message], *, generation: bool) -> list[Piece]:
        """What the template writes behind the text of an assistant turn, with ``messages`` after it."""
        said = Message(role="assistant", content=_PROBES[0])
        pieces = self._pieces((_QUESTION, said, *messages), generation=generation)
        place = next(number for number, piece in enumerate(pieces) if piece == (_PROBES[0], False))
        return pieces[place + 1 :]

    def _pieces(self, messages: Sequence[Message], *, generation: bool) -> list[Piece]:
        """Render messages, keeping apart what the template wrote and what is theirs.

        The template is run on placeholders, then on the real texts; both must agree once the placeholders are
        filled in, with the texts as they are or with the white space around them gone.

        Raises:
            SetupError: if the template changes what a message says.
        """
        texts = [_plain_text(message) for message in messages]
        marks = _marks(texts)
        rendered = self._render(messages, texts, generation=generation)
        pattern = self._render(messages, marks, generation=generation)
        for contents in (texts, [text.strip() for text in texts]):
            pieces = list(_fill(pattern, dict(zip(marks, contents, strict=True))))
            if _text(pieces) == rendered:
                return pieces
        raise SetupError(f"the chat template of {self._name} changes the text of a message, so ids cannot be kept")

    def _render(self, messages: Sequence[Message], texts: Sequence[str], *, generation: bool) -> str:
        conversation = [_as_dict(message, text) for message, text in zip(messages, texts, strict=True)]
        try:
            rendered = self._tokenizer.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=generation
            )
        except TemplateError as error:
            raise SetupError(f"the chat template of {self._name} refuses the conversation: {error}") from error
        return str(rendered)

    def _encode(self, pieces: Iterable[Piece]) -> tuple[int, ...]:
        """Encode pieces as one string: the template's special tokens by id, everything between them as text."""
        ids: list[int] = []
        pending = ""
        for text, from_template in pieces:
            parts = self._special.split(text) if from_template else [text]
            for part in parts:
                if from_template and part in self._special_ids:
                    ids += self._plain_ids(pending)
                    ids.append(self._special_ids[part])
                    pending = ""
                else:
                    pending += part
        return tuple(ids + self._plain_ids(pending))

    def _plain_ids(self, text: str) -> list[int]:
        return self.encode_text(text) if text else []

    def encode_text(self, text: str) -> list[int]:
        """Encode text in which nothing is a control token."""
        return self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]

    def _check_append_only(self) -> None:
        """Play two turns and compare with what the template writes of them when asked at once."""
        for said in _PROBES:
            answer, reply = Message(role="assistant", content=said), Message(role="user", content="And this?")
            conversation: list[Message] = [_QUESTION]
            appended = _text(self._pieces(conversation, generation=True))
            between = _text(self._closing) + _text(
                _drop(self._pieces_behind_assistant((reply,), generation=True), len(_text(self._closing)))
            )
            for _ in range(2):
                conversation += [answer, reply]
                appended += said + between
                texts = [_plain_text(message) for message in conversation]
                if self._render(conversation, texts, generation=True) != appended:
                    raise SetupError(
                        f"the chat template of {self._name} rewrites an earlier assistant turn (it drops thinking, "
                        "say), so a rollout cannot be one sequence of ids; give a template that keeps it"
                    )


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> Iterator[str]:
    yield from tokenizer.all_special_tokens
    for token in tokenizer.added_tokens_decoder.values():
        if token.special:
            yield token.content


def _plain_text(message: Message) -> str:
    if not isinstance(message.content, str) and not all(isinstance(part, TextPart) for part in message.content):
        raise SetupError("a message holds an image, which a text model cannot read")
    return message.text


def _as_dict(message: Message, text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role, "content": text}
    if message.tool_calls:
        fields["tool_calls"] = [{"type": "function", "function": asdict(call)} for call in message.tool_calls]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def _marks(texts: Sequence[str]) -> list[str]:
    """One placeholder per text that occurs in none of them."""
    salt = 0
    while any(f"\ue000{salt}." in text for text in texts):
        salt += 1
    return [f"\ue000{salt}.{number}\ue001" for number in range(len(texts))]


def _fill(pattern: str, contents: dict[str, str]) -> Iterator[Piece]:
    for part in re.split("(" + "|".join(map(re.escape, contents)) + ")", pattern):
        if part in contents:
            yield contents[part], False
        elif part:
            yield part, True


def _text(pieces: Iterable[Piece]) -> str:
    return "".join(text for text, _ in pieces)


def _drop(pieces: Sequence[Piece], count: int) -> list[Piece]:
    """The pieces without their first ``count`` characters."""
    rest: list[Piece] = []
    for text, from_template in pieces:
        if kept := text[count:]:
            rest.append((kept, from_template))
        count = max(0, count - len(text))
    return rest
