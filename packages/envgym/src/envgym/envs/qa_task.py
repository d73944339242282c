"""Making the tasks of the ``qa`` env out of rows of any shape."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from envgym.errors import SetupError
from envgym.messages import ROLES, Message, Role, Task
from envgym.task_file import is_strings, task_id

QUESTION_FIELDS = ("question", "prompt", "problem", "input")
ANSWER_FIELDS = ("answers", "answer", "ground_truth", "target", "solution", "output")

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class MakeQuestion:
    """``make(fields, place, number)`` for ``envgym.task_file.load_tasks``.

    ``Task.data`` holds ``question`` (a text, or messages as objects) and the fields in ``shown``, and nothing
    else, so that no other column gets out. ``Task.answer`` holds ``answers``, the accepted ground truths.
    """

    question_field: str | None = None
    answer_field: str | None = None
    shown: tuple[str, ...] = ()
    """Further fields that the prompt names."""

    def __call__(self, fields: Mapping[str, Any], place: str, number: int) -> Task:
        """A task from a row.

        Raises:
            SetupError: if a field is missing, empty, or not what it should be.
        """
        question = _find(fields, self.question_field, QUESTION_FIELDS, "question_field", place)
        answer = _find(fields, self.answer_field, ANSWER_FIELDS, "answer_field", place)
        _check_question(question, place)
        missing = [name for name in self.shown if name not in fields]
        if missing:
            raise SetupError(f"{place}: the prompt names {missing[0]!r}, and the fields are {', '.join(fields)}")
        return Task(
            id=task_id(fields, number),
            data={"question": question, **{name: fields[name] for name in self.shown}},
            answer={"answers": accepted(answer, place)},
        )


def _find(
    fields: Mapping[str, Any], chosen: str | None, usual: Sequence[str], argument: str, place: str
) -> object:
    for name in (chosen,) if chosen else usual:
        value = _follow(fields, name)
        if value is not _ABSENT:
            return value
    tried = chosen or " or ".join(usual)
    raise SetupError(f"{place}: there is no {tried}; name one of {', '.join(fields)} with env.{argument}")


def _follow(fields: Mapping[str, Any], path: str) -> object:
    """The value at ``a.b``: inside objects, unless a field has that whole name."""
    if path in fields:
        return fields[path]
    value: object = fields
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _ABSENT
        value = cast("Mapping[str, object]", value)[part]
    return value


def accepted(answer: object, place: str) -> tuple[object, ...]:
    """The ground truths that count: a list of texts is several, anything else is one.

    Numbers become text. Objects and other lists are handed to the rewards as they are.

    >>> accepted(42, "here"), accepted(["Mirel", "Mirel Kon"], "here"), accepted({"x": 1}, "here")
    (('42',), ('Mirel', 'Mirel Kon'), ({'x': 1},))
    """
    if answer is None or answer in ("", [], {}) or (isinstance(answer, str) and not answer.strip()):
        raise SetupError(f"{place}: the answer is empty")
    if is_strings(answer):
        return tuple(answer)
    if isinstance(answer, bool | int | float):
        return (json.dumps(answer),)
    return (answer,)


def _check_question(question: object, place: str) -> None:
    try:
        blank = not messages_of(question)[-1].text.strip()
    except (ValueError, IndexError) as error:
        raise SetupError(f"{place}: the question must be a text or a list of messages ({error})") from error
    if blank:
        raise SetupError(f"{place}: the question is empty")


def messages_of(question: object) -> tuple[Message, ...]:
    """A question as messages, the last of which is the user's.

    Raises:
        ValueError: if it is neither a text nor a list of ``{"role", "content"}`` that ends with the user.
    """
    if isinstance(question, str):
        return (Message(role="user", content=question),)
    if not isinstance(question, list | tuple):
        raise ValueError(f"it is {type(question).__name__}")
    messages = tuple(_message(item) for item in cast("Sequence[object]", question))
    if not messages or messages[-1].role != "user":
        raise ValueError("its last message is not the user's")
    return messages


def _message(item: object) -> Message:
    fields: Mapping[str, object] = cast("Mapping[str, object]", item) if isinstance(item, Mapping) else {}
    role, content = fields.get("role"), fields.get("content")
    if role not in ROLES or not isinstance(content, str):
        raise ValueError(f"a message must have one of the roles {', '.join(ROLES)} and a text as content")
    return Message(role=cast("Role", role), content=content)
