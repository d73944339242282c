"""What every retriever offers."""

from typing import Protocol

from envgym.retrieval.corpus import Document


class Retriever(Protocol):
    """Finds documents for a query. Shared by all envs of a process, and asked from one thread at a time or more."""

    def search(self, query: str, k: int) -> tuple[Document, ...]:
        """At most ``k`` documents, the best first; fewer where fewer match.

        Raises:
            InfrastructureError: if the search failed, which is not the model's fault.
        """
        ...
