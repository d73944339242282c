"""A tokenizer's chat template as ids: the prompt, what closes a turn, and what leads to the next one.

The template is asked what it writes around texts, and only its own special tokens become control tokens. The text
of a message is encoded with ``split_special_tokens``, so a document that says ``<|im_end|>`` stays a document.

A rollout only ever appends ids. That is right as long as the template does not rewrite an assistant turn later on,
which ``ChatFormat`` checks once per tokenizer.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from envgym import Message, SetupError, TextPart

Piece = tuple[str, bool]
"""(text, whether the template wrote it); False for the text of a message."""
Atom = int | str
"""A special token's id, or text between special tokens."""

_QUESTION = Message(role="user", content="Is it so?")
_REPLY = Message(role="user", content="And this?")
_PROBES = ("It is.", "<think>\nLet me see.\n</think>\n\nIt is.")
"""What an assistant may say while a template is probed; some templates drop the thinking of earlier turns."""


class ChatError(Exception):
    """A conversation that the template cannot write, or that it writes with other texts than it was given."""


class ChatFormat:
    """Turns messages into ids as a chat template would, without ever encoding again what was sampled."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, name: str, arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Learn the template of a tokenizer, and check that ids which are only appended to are what it writes.

        Args:
            tokenizer: with a chat template.
            name: of the model, for messages.
            arguments: variables of the template, such as ``enable_thinking`` or ``date_string``.

        Raises:
            SetupError: if there is no template, or if it does not keep an earlier turn as it was.
        """
        if not tokenizer.chat_template:
            raise SetupError(f"the tokenizer of {name} has no chat template; take an instruct model or add one")
        self._tokenizer = tokenizer
        self._arguments = dict(arguments or {})
        self._special_ids = _special_ids(tokenizer)
        longest_first = sorted(self._special_ids, key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None
        self._plain_ids = lru_cache(maxsize=4096)(self._encode_plain)
        self._pattern = lru_cache(maxsize=256)(self._make_pattern)
        self._encode_prompt = lru_cache(maxsize=4096)(self._make_prompt)
        self._encode_continuation = lru_cache(maxsize=4096)(self._make_continuation)
        try:
            closing = self._behind_assistant((), generation=False)
            self._closing_text = _text(closing)
            self._closing = self._atoms(closing)
            self._check_append_only()
        except ChatError as error:
            raise SetupError(f"the chat template of {name} cannot be used: {error}") from error

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The special token by which the template ends a turn, where it has one: sampling it ends a turn."""
        return tuple(atom for atom in self._closing if isinstance(atom, int))[:1]

    def prompt_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Encode the opening messages, up to where the assistant begins.

        Raises:
            ChatError: if the template cannot write them.
        """
        return self._encode_prompt(tuple(messages))

    def _make_prompt(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        return self._encode(self._atoms(self._pieces(messages, generation=True)))

    def closing_ids(self, sampled: Sequence[int]) -> tuple[int, ...]:
        """What the template writes behind a last turn, less the ids of it that the turn itself sampled.

        A turn that ends with the template's own end of turn needs what comes behind that; any other turn (a stop
        string, a length, another EOS id) needs all of it.
        """
        return self._encode(self._closing[self._sampled_atoms(sampled) :])

    def continuation_ids(
        self, sampled: Sequence[int], messages: Sequence[Message], *, close: bool = True
    ) -> tuple[int, ...]:
        """Encode, as one string, what stands between a turn and the next one.

        Args:
            sampled: the ids of the turn.
            messages: what the env answered.
            close: whether the turn is closed first, as by ``closing_ids``.

        Raises:
            ChatError: if the template cannot write the messages.
        """
        skipped = self._sampled_atoms(sampled) if close else None
        return self._encode_continuation(skipped, tuple(messages))

    def _make_continuation(self, skipped: int | None, messages: tuple[Message, ...]) -> tuple[int, ...]:
        pieces = self._behind_assistant(messages, generation=True)
        if not _text(pieces).startswith(self._closing_text):
            raise ChatError("it closes a turn in another way where messages follow")
        if skipped is None:
            return self._encode(self._atoms(_drop(pieces, len(self._closing_text))))
        return self._encode(self._atoms(pieces)[skipped:])

    def _sampled_atoms(self, sampled: Sequence[int]) -> int:
        """How many atoms of the closing are done with, because the turn sampled the last of them."""
        last = sampled[-1] if sampled else None
        return self._closing.index(last) + 1 if last in self._closing else 0

    def _behind_assistant(self, messages: tuple[Message, ...], *, generation: bool) -> list[Piece]:
        """What the template writes behind the text of an assistant turn, with ``messages`` after it."""
        said = Message(role="assistant", content=_PROBES[0])
        pieces = self._pieces((_QUESTION, said, *messages), generation=generation)
        place = next(number for number, piece in enumerate(pieces) if piece == (_PROBES[0], False))
        return pieces[place + 1 :]

    def _pieces(self, messages: tuple[Message, ...], *, generation: bool) -> list[Piece]:
        """Render messages, keeping apart what the template wrote and what is theirs.

        The template is run on marks instead of texts, and on the texts; the two must agree once each mark is
        filled in with its text, as it is or with the white space around it gone.
        """
        texts = [_plain_text(message) for message in messages]
        shapes = tuple(replace(message, content="x" if message.text else "") for message in messages)
        pattern, marks = self._pattern(shapes, _salt(texts), generation)
        rendered = self._render([_fields(*pair) for pair in zip(messages, texts, strict=True)], generation)
        return _fill(pattern, dict(zip(marks, texts, strict=True)), rendered)

    def _make_pattern(
        self, shapes: tuple[Message, ...], salt: int, generation: bool
    ) -> tuple[str, tuple[str, ...]]:
        """What the template writes with marks for texts, and the marks. A message without text stays without."""
        marks = tuple(f"zq{salt}zq{number}zq" for number in range(len(shapes)))
        conversation = [
            _fields(shape, mark if shape.content else "") for shape, mark in zip(shapes, marks, strict=True)
        ]
        pattern = self._render(conversation, generation)
        for fields in conversation:
            if fields["content"] not in pattern:
                raise ChatError(f"it leaves out what a {fields['role']} says")
        return pattern, marks

    def _render(self, conversation: list[dict[str, Any]], generation: bool) -> str:
        try:
            rendered = self._tokenizer.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=generation, **self._arguments
            )
        except (TemplateError, TypeError, ValueError) as error:
            roles = ", ".join(fields["role"] for fields in conversation)
            raise ChatError(f"it refuses the roles {roles}: {' '.join(str(error).split())}") from error
        return str(rendered)

    def _atoms(self, pieces: Iterable[Piece]) -> tuple[Atom, ...]:
        """Special tokens that the template wrote, by id, and the text between them, joined across pieces."""
        atoms: list[Atom] = []
        for text, from_template in pieces:
            parts = self._special.split(text) if from_template and self._special else [text]
            for number, part in enumerate(parts):
                if number % 2:  # what the pattern matched
                    atoms.append(self._special_ids[part])
                elif part and atoms and isinstance(atoms[-1], str):
                    atoms[-1] += part
                elif part:
                    atoms.append(part)
        return tuple(atoms)

    def _encode(self, atoms: Iterable[Atom]) -> tuple[int, ...]:
        ids: list[int] = []
        for atom in atoms:
            ids += (atom,) if isinstance(atom, int) else self._plain_ids(atom)
        return tuple(ids)

    def _encode_plain(self, text: str) -> tuple[int, ...]:
        """Encode text in which nothing is a control token."""
        encoded = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        return tuple(encoded["input_ids"])

    def _check_append_only(self) -> None:
        """Play two turns, and compare texts and ids with what the template writes of the whole conversation."""
        for said in _PROBES:
            conversation: list[Message] = [_QUESTION]
            whole = self._checked(self._pieces((_QUESTION,), generation=True), self.prompt_ids((_QUESTION,)))
            between = self._behind_assistant((_REPLY,), generation=True)
            joint = self._checked(between, self.continuation_ids((), (_REPLY,)))
            for _ in range(2):
                conversation += [Message(role="assistant", content=said), _REPLY]
                whole += said + joint
                fields = [_fields(message, message.text) for message in conversation]
                if self._render(fields, generation=True) != whole:
                    raise ChatError(
                        "it rewrites an earlier assistant turn (it drops thinking, say), so that a rollout is not "
                        "one sequence of ids; give the model a template that keeps turns as they were"
                    )

    def _checked(self, pieces: list[Piece], ids: tuple[int, ...]) -> str:
        """The text of pieces, once the tokenizer itself makes the same ids of it. Holds for texts of ours only."""
        text = _text(pieces)
        if tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"]) != ids:
            raise ChatError(
                f"the tokenizer encodes {text!r} as a whole in another way than between special tokens"
            )
        return text


def _special_ids(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """The special tokens, by what they look like in text."""
    added = tokenizer.added_tokens_decoder.items()
    return {token.content: number for number, token in added if token.special and token.content}


def _plain_text(message: Message) -> str:
    if not isinstance(message.content, str) and not all(isinstance(part, TextPart) for part in message.content):
        raise ChatError("a message holds an image, which a text model cannot read")
    return message.text


def _fields(message: Message, text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role, "content": text}
    if message.tool_calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _parsed(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def _parsed(arguments: str) -> Any:
    """A call's arguments as templates expect them, or as they are where the model did not write JSON."""
    try:
        return json.loads(arguments)
    except json.JSONDecodeError:
        return arguments


def _salt(texts: Sequence[str]) -> int:
    """A number with which marks occur in none of the texts."""
    salt = 0
    while any(f"zq{salt}zq" in text for text in texts):
        salt += 1
    return salt


def _fill(pattern: str, contents: Mapping[str, str], rendered: str) -> list[Piece]:
    """Cut ``rendered`` at the places of the marks in ``pattern``.

    Args:
        pattern: what the template wrote with marks.
        contents: the text of each mark.
        rendered: what it wrote with the texts.

    Raises:
        ChatError: if the two differ in more than white space around the texts.
    """
    parts = re.split("(" + "|".join(map(re.escape, contents)) + ")", pattern)
    pieces: list[Piece] = []
    place = 0
    for number, part in enumerate(parts):
        from_template = number % 2 == 0
        if from_template:
            text = part if rendered.startswith(part, place) else None
        else:
            text = _text_at(rendered, place, contents[part], parts[number + 1])
        if text is None:
            raise ChatError(f"it changes what a message says, near {rendered[place : place + 40]!r}")
        place += len(text)
        pieces.append((text, from_template))
    if place != len(rendered):
        raise ChatError(f"it changes what a message says, near {rendered[place : place + 40]!r}")
    return pieces


def _text_at(rendered: str, place: int, text: str, following: str) -> str | None:
    """The text as the template wrote it at a place, with or without the white space around it."""
    for written in (text, text.strip(), text.lstrip(), text.rstrip()):
        if rendered.startswith(written + following, place):
            return written
    return None


def _text(pieces: Iterable[Piece]) -> str:
    return "".join(text for text, _ in pieces)


def _drop(pieces: Iterable[Piece], count: int) -> Iterator[Piece]:
    """The pieces without their first ``count`` characters."""
    for text, from_template in pieces:
        yield text[count:], from_template
        count = max(0, count - len(text))
