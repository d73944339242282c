"""What every retriever offers."""

from typing import Protocol

from envgym.retrieval.corpus import Document


class Retriever(Protocol):
    """Finds documents for a query. Shared by all envs of a process, and asked from any thread."""

    def search(self, query: str, k: int) -> tuple[Document, ...]:
        """At most ``k`` documents, the best first; fewer where fewer match.

        Raises:
            InfrastructureError: if the search failed, which is not the model's fault.
        """
        ...


class ScoredRetriever(Retriever, Protocol):
    """A retriever that can also say how well its documents match."""

    def search_scored(self, query: str, k: int) -> tuple[tuple[Document, float], ...]:
        """What ``search`` finds, each document with its score: the higher the better."""
        ...
