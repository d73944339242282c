"""Documents to be searched, and the JSON-lines file that they usually come in."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from envgym.errors import SetupError
from envgym.json_lines import read_json_lines


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A passage with its title."""

    id: str
    title: str
    text: str

    @property
    def contents(self) -> str:
        """Title and text, as they are indexed."""
        return f"{self.title}\n{self.text}" if self.title else self.text


def load_corpus(path: str) -> tuple[Document, ...]:
    """Load ``{"id", "contents"}`` lines, whose first line of contents is the quoted title.

    Lines of ``{"id", "title", "text"}`` are understood as well.

    A file is read once per process, and again if it changes.

    Raises:
        SetupError: if the file is missing, malformed or empty.
    """
    resolved = Path(path).expanduser().resolve()
    if not resolved.is_file():
        raise SetupError(f"corpus {path} does not exist; give a JSON-lines file of {{id, contents}} objects")
    state = resolved.stat()
    return _load(resolved, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _load(path: Path, modified: int, size: int) -> tuple[Document, ...]:
    documents = tuple(_document(path, number, fields) for number, fields in read_json_lines(path, "corpus"))
    if not documents:
        raise SetupError(f"corpus {path} holds no documents; give a JSON-lines file of {{id, contents}} objects")
    return documents


def _document(path: Path, number: int, fields: dict[str, Any]) -> Document:
    document_id = str(fields.get("id", number - 1))
    contents, title, text = fields.get("contents"), fields.get("title", ""), fields.get("text")
    if isinstance(contents, str):
        return Document(id=document_id, **split_contents(contents))
    if contents is None and isinstance(title, str) and isinstance(text, str):
        return Document(id=document_id, title=title, text=text)
    raise SetupError(f'{path}, line {number}: "contents" must be a string, title first')


def split_contents(contents: str) -> dict[str, str]:
    r"""The title, without its quotes, and the text.

    >>> split_contents('"Arvel"\nArvel is a guild.')
    {'title': 'Arvel', 'text': 'Arvel is a guild.'}
    """
    first, separator, rest = contents.partition("\n")
    if not separator:
        return {"title": "", "text": contents}
    title = first.strip()
    quoted = len(title) > 1 and title[0] == title[-1] == '"'
    return {"title": title[1:-1] if quoted else title, "text": rest}
