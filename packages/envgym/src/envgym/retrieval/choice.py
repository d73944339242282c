"""Retrievers by name: ``bm25``, ``http`` and ``dense``, each built once per process and shared."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias, TypeVar, cast

from envgym.errors import SetupError
from envgym.once import Once
from envgym.retrieval.corpus import Document
from envgym.retrieval.protocol import Retriever

Documents: TypeAlias = tuple[Document, ...]
Options: TypeAlias = Mapping[str, Any]
_Settings = TypeVar("_Settings")


def _bm25(documents: Documents, options: Options) -> Retriever:
    from envgym.retrieval.bm25 import Bm25Retriever

    if options:
        raise SetupError(f"retriever 'bm25' takes no options, and was given {', '.join(options)}")
    return Bm25Retriever(documents)


def _http(documents: Documents, options: Options) -> Retriever:
    from envgym.retrieval.http import HttpRetriever, HttpSettings

    if "url" not in options:
        raise SetupError("retriever 'http' needs the option url, for example url=http://127.0.0.1:8000/retrieve")
    return HttpRetriever(_settings("http", HttpSettings, options))


def _dense(documents: Documents, options: Options) -> Retriever:
    from envgym.retrieval.dense import DenseRetriever, DenseSettings

    return DenseRetriever(documents, _settings("dense", DenseSettings, options))


RETRIEVERS: dict[str, Callable[[Documents, Options], Retriever]] = {"bm25": _bm25, "dense": _dense, "http": _http}


def _settings(name: str, kind: type[_Settings], options: Options) -> _Settings:
    known = [field.name for field in fields(cast("Any", kind))]
    for given in options:
        if given not in known:
            raise SetupError(f"retriever {name!r} takes no option {given!r}; it takes: {', '.join(known)}")
    return kind(**options)


def choose_retriever(name: str, documents: Documents, options: Options) -> Retriever:
    """The retriever of this name for these documents; the same one for the same arguments.

    Args:
        name: one of ``RETRIEVERS``.
        documents: what is searched; ``http`` searches what its server has instead.
        options: the fields of ``HttpSettings`` or ``DenseSettings``.

    Raises:
        SetupError: for an unknown name or option, a value that cannot be used, or a missing extra.
    """
    if name not in RETRIEVERS:
        raise SetupError(f"unknown retriever {name!r}; there are: {', '.join(RETRIEVERS)}")
    for option, value in options.items():
        if not isinstance(value, str | int | float | None):
            raise SetupError(
                f"the option {option} of retriever {name!r} is {value!r}; it must be a text or a number"
            )
    return _retriever((name, _Same(documents), tuple(sorted(options.items()))))


class _Same:
    """Documents told apart by identity: hashing and comparing many documents would cost too much."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.documents is self.documents

    def __hash__(self) -> int:
        return id(self.documents)


def _build(key: tuple[str, _Same, tuple[tuple[str, Any], ...]]) -> Retriever:
    name, same, options = key
    return RETRIEVERS[name](same.documents, dict(options))


_retriever = Once(_build, size=8)
