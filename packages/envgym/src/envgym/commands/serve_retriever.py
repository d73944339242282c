"""``envgym serve-retriever``: a search server over a corpus."""

from typing import Annotated

import typer

from envgym.commands.argument import read_arguments
from envgym.commands.terminal import make_console


def serve_retriever(
    corpus: Annotated[
        str | None, typer.Option(help="JSON-lines file of {id, contents}; without it the embedded world.")
    ] = None,
    retriever: Annotated[str, typer.Option(help="bm25 or dense.")] = "bm25",
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the retriever. May be repeated.")
    ] = None,
    topk: Annotated[int, typer.Option(min=1, help="Documents per query where a request does not say.")] = 3,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = 8000,
) -> None:
    """Serve a corpus to the http retriever of search, and to others that speak its dialects."""
    from envgym.retrieval.server import serve_retriever as serve

    serve(
        corpus=corpus,
        retriever=retriever,
        retriever_options=read_arguments(option, "--option"),
        topk=topk,
        host=host,
        port=port,
        announce=make_console().print,
    )
