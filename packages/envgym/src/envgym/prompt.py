"""Prompts as users give them: text or a file, with fields in braces."""

import re
from collections.abc import Mapping
from pathlib import Path

from envgym.errors import SetupError

_FIELD = re.compile(r"\{([a-z_]+)\}")


def load_prompt(prompt: str, required: str = "question") -> str:
    """The text of a prompt: as given if it has the required field, else what the file of this name holds.

    Raises:
        SetupError: if there is no such file, or if the field is missing.

    >>> load_prompt("Answer: {question}")
    'Answer: {question}'
    """
    field = f"{{{required}}}"
    if field in prompt:
        return prompt
    path = Path(prompt)
    if "\n" in prompt or not path.is_file():
        raise SetupError(f"prompt {prompt[:60]!r} is neither a file nor a text with the field {field}")
    text = path.read_text(encoding="utf-8")
    if field not in text:
        raise SetupError(f"the prompt file {path} lacks the field {field}")
    return text


def fill(prompt: str, fields: Mapping[str, object]) -> str:
    """Put values in the place of fields. Braces around anything else stay, also in the values.

    >>> fill("{question} as {json}", {"question": "What is {x}?"})
    'What is {x}? as {json}'
    """
    return _FIELD.sub(lambda match: str(fields.get(match[1], match[0])), prompt)
