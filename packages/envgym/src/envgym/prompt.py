"""Prompts as users give them: text or a file, with fields in braces."""

import re
from collections.abc import Mapping
from pathlib import Path

from envgym.errors import SetupError

_FIELD = re.compile(r"\{([a-z_]+)\}")
_LONGEST_PATH = 1_000


def load_prompt(prompt: str, required: str | None = "question") -> str:
    """The text of a prompt: as given if it has the required field, else what the file of this name holds.

    Args:
        prompt: text, or the path of a file.
        required: the field that it must have. With None, a text that is no file's name is taken as it is.

    Raises:
        SetupError: if there is no such file, if it cannot be read, or if the field is missing.

    >>> load_prompt("Answer: {question}")
    'Answer: {question}'
    """
    field = "" if required is None else f"{{{required}}}"
    if field and field in prompt:
        return prompt
    if "\n" in prompt or len(prompt) > _LONGEST_PATH or not Path(prompt).expanduser().is_file():
        if field:
            raise SetupError(f"prompt {prompt[:60]!r} is neither a file nor a text with the field {field}")
        return prompt
    path = Path(prompt).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"the prompt file {path} cannot be read: {error}") from error
    if field not in text:
        raise SetupError(f"the prompt file {path} lacks the field {field}")
    return text


def fields_in(prompt: str) -> tuple[str, ...]:
    """The names of the fields, each once.

    >>> fields_in("{context} {question} {context} {}")
    ('context', 'question')
    """
    return tuple(dict.fromkeys(_FIELD.findall(prompt)))


def fill(prompt: str, fields: Mapping[str, object]) -> str:
    """Put values in the place of fields. Braces around anything else stay, also in the values.

    >>> fill("{question} as {json}", {"question": "What is {x}?"})
    'What is {x}? as {json}'
    """
    return _FIELD.sub(lambda match: str(fields.get(match[1], match[0])), prompt)
