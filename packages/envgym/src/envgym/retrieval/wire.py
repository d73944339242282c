r"""What search servers and their clients send each other: two public dialects, and many shapes of documents.

A request asks with a list or with a string:

    {"queries": ["who founded Arvel"], "topk": 3, "return_scores": true}
    {"query": "who founded Arvel", "topk": 3, "return_scores": true}

The answer is ``{"result": [...]}`` with one list per query (or the list itself, for one query). A document in it
is ``{"document": {...}, "score": 1.5}``, the bare object or a string. The object holds ``contents`` (first line:
the quoted title), or ``title`` and ``text``. Lists may be short, and may hold placeholders for hits that do not
exist: null, -1, or whatever document -1 is with the score that faiss gives to "none".

    >>> answer = {"result": [[{"document": {"id": "7", "contents": '"Arvel"\nA guild.'}, "score": 2.0}, -1]]}
    >>> read_documents(answer, 3)
    (Document(id='7', title='Arvel', text='A guild.'),)
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

from envgym.retrieval.corpus import Document, split_contents

Dialect: TypeAlias = Literal["queries", "query"]
DIALECTS: tuple[Dialect, ...] = ("queries", "query")

MAX_QUERY_CHARACTERS = 4_000
NO_HIT_SCORE = (
    3.4e38  # faiss fills up short lists with index -1 and the largest float32, 3.403e38, or its negative
)
_RESULT_KEYS = ("result", "results", "documents")
_ID_KEYS = ("id", "_id")


def encode_request(dialect: Dialect, query: str, k: int) -> bytes:
    """The body of a request.

    A model may write anything: a long query is cut; half a surrogate pair, which JSON cannot hold, becomes ``?``.
    """
    sendable = query[:MAX_QUERY_CHARACTERS].encode("utf-8", errors="replace").decode()
    asked: Any = [sendable] if dialect == "queries" else sendable
    return json.dumps({dialect: asked, "topk": k, "return_scores": True}).encode()


def encode_answer(hits: Iterable[Iterable[tuple[Document, float]]], *, return_scores: bool) -> dict[str, Any]:
    """The answer of our own server: per query, documents with or without scores."""
    return {
        "result": [
            [
                _encode_hit(document, score) if return_scores else _encode_document(document)
                for document, score in each
            ]
            for each in hits
        ]
    }


def _encode_hit(document: Document, score: float) -> dict[str, Any]:
    return {"document": _encode_document(document), "score": score}


def _encode_document(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "contents": f'"{document.title}"\n{document.text}',
    }


def read_documents(answer: object, k: int) -> tuple[Document, ...]:
    """The documents in the answer to one query: at most ``k``, placeholders left out.

    Raises:
        ValueError: if the answer has another shape.
    """
    documents = (_read_hit(hit) for hit in _hits(answer))
    return tuple(document for document in documents if document is not None)[:k]


def _hits(answer: object) -> list[object]:
    """The list of hits, taken out of its wrapping."""
    if isinstance(answer, Mapping):
        mapping = cast("Mapping[str, object]", answer)
        key = next((key for key in _RESULT_KEYS if key in mapping), None)
        if key is None:
            raise ValueError(f"the object has none of the keys {', '.join(_RESULT_KEYS)}")
        answer = mapping[key]
    if not isinstance(answer, list):
        raise ValueError(f"the results are {type(answer).__name__}, not a list")
    hits = cast("list[object]", answer)
    if any(isinstance(hit, list) for hit in hits):
        if len(hits) != 1:
            raise ValueError(f"there are {len(hits)} lists of results for one query")
        return cast("list[object]", hits[0])
    return hits


def _read_hit(hit: object) -> Document | None:
    if not isinstance(hit, Mapping):
        return _read_document(hit)
    mapping = cast("Mapping[str, object]", hit)
    if _is_no_hit(mapping.get("score")):
        return None
    return _read_document(mapping.get("document", mapping))


def _is_no_hit(score: object) -> bool:
    return isinstance(score, int | float) and (not math.isfinite(score) or abs(score) >= NO_HIT_SCORE)


def _read_document(found: object) -> Document | None:
    if found in (None, -1, "", "-1"):
        return None
    if isinstance(found, str):
        return _from_contents("", found)
    if not isinstance(found, Mapping):
        raise ValueError(f"a document is {type(found).__name__}, neither an object nor a string")
    fields = cast("Mapping[str, object]", found)
    document_id = next((str(fields[key]) for key in _ID_KEYS if fields.get(key) is not None), "")
    if document_id == "-1":
        return None
    if "contents" in fields and "title" not in fields:
        return _from_contents(document_id, _text(fields, "contents"))
    if "text" in fields:
        title = _text(fields, "title") if fields.get("title") is not None else ""
        return Document(id=document_id, title=title, text=_text(fields, "text"))
    if "contents" in fields:
        return _from_contents(document_id, _text(fields, "contents"))
    raise ValueError(f"a document has neither contents nor text, only {', '.join(sorted(fields)) or 'nothing'}")


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields[key]
    if not isinstance(value, str):
        raise ValueError(f"the {key} of a document is {type(value).__name__}, not a string")
    return value


def _from_contents(document_id: str, contents: str) -> Document:
    return Document(id=document_id, **split_contents(contents))
