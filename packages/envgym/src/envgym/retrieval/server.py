"""A small search server for the ``http`` retriever; it answers both dialects of ``envgym.retrieval.wire``.

    POST /retrieve   {"queries": ["…"], "topk": 3}  or  {"query": "…", "topk": 3}
    GET  /health     {"documents": 2400}

Needs the extra ``serve``. It is meant for one machine and listens on 127.0.0.1 unless told otherwise.
"""

import socket
from collections.abc import Callable, Mapping
from typing import Annotated, Any, cast

from envgym.errors import SetupError
from envgym.extra import missing_extra
from envgym.retrieval.choice import choose_retriever
from envgym.retrieval.corpus import load_corpus
from envgym.retrieval.protocol import ScoredRetriever
from envgym.retrieval.wire import encode_answer
from envgym.worlds.search import make_world

try:
    import uvicorn
    from fastapi import FastAPI, HTTPException
    from pydantic import BaseModel, Field
except ImportError as error:
    raise missing_extra("serve", "the search server", error) from error

MAX_QUERIES = 512
MAX_QUERY_CHARACTERS = 10_000
MAX_DOCUMENTS = 100
PATH = "/retrieve"

_Query = Annotated[str, Field(max_length=MAX_QUERY_CHARACTERS)]


class SearchRequest(BaseModel):
    """A request in either dialect."""

    queries: Annotated[list[_Query], Field(max_length=MAX_QUERIES)] | None = None
    query: _Query | None = None
    topk: Annotated[int, Field(ge=1, le=MAX_DOCUMENTS)] | None = None
    return_scores: bool = True


def build_app(retriever: ScoredRetriever, *, documents: int, topk: int = 3) -> FastAPI:
    """The server as an ASGI app.

    Args:
        retriever: what it searches with.
        documents: how many there are, for ``/health``.
        topk: documents per query where a request does not say.
    """
    app = FastAPI(title="envgym search server")

    @app.post(PATH)
    def retrieve(request: SearchRequest) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        if (request.queries is None) == (request.query is None):
            raise HTTPException(422, "give either queries or query")
        queries = request.queries if request.queries is not None else [cast("str", request.query)]
        hits = [retriever.search_scored(query, request.topk or topk) for query in queries]
        return encode_answer(hits, return_scores=request.return_scores)

    @app.get("/health")
    def health() -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        return {"documents": documents}

    return app


def serve_retriever(
    *,
    corpus: str | None = None,
    retriever: str = "bm25",
    retriever_options: Mapping[str, Any] | None = None,
    topk: int = 3,
    host: str = "127.0.0.1",
    port: int = 8000,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve a corpus until the process is told to stop.

    Args:
        corpus: JSON-lines file of ``{"id", "contents"}``; without it the embedded world of ``search`` is served.
        retriever: ``bm25`` or ``dense``.
        retriever_options: for ``dense`` the fields of ``DenseSettings``.
        topk: documents per query where a request does not say.
        host: the address to listen on.
        port: the port; 0 takes a free one.
        announce: told the address once the server listens.

    Raises:
        SetupError: for a corpus that cannot be read, an unknown retriever or option, or a port that is taken.
    """
    if retriever == "http":
        raise SetupError("a server cannot search with retriever 'http'; take bm25 or dense")
    documents = make_world().documents if corpus is None else load_corpus(corpus)
    searcher = cast("ScoredRetriever", choose_retriever(retriever, documents, retriever_options or {}))
    app = build_app(searcher, documents=len(documents), topk=topk)
    listener = _listen(host, port)
    announce(f"{len(documents)} documents at http://{host}:{listener.getsockname()[1]}{PATH}")
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """Bound here and not by uvicorn, so that a taken port is one line and the port that was chosen is known."""
    try:
        return socket.create_server((host, port), backlog=512)
    except (OSError, OverflowError) as error:
        raise SetupError(f"cannot listen on {host}:{port}: {error}; choose another port") from error
