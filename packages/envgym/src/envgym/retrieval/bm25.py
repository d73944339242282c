"""The ``bm25`` retriever: an index in this process, built once and shared."""

import re
import unicodedata

import bm25s  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
from numpy.typing import NDArray

from envgym.retrieval.corpus import Document

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text, case and accents folded; letters and digits of any script.

    >>> words("Beyoncé's 2nd album")
    ['beyonce', 's', '2nd', 'album']
    """
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(letter for letter in decomposed if not unicodedata.combining(letter)))


class Bm25Retriever:
    """Ranks documents by BM25 over title and text (Robertson et al. 1994, Lucene's variant, k1 1.5, b 0.75)."""

    def __init__(self, documents: tuple[Document, ...]) -> None:
        """Build the index."""
        self._documents = documents
        texts = [words(document.contents) for document in documents]
        vocabulary = {word: number for number, word in enumerate(dict.fromkeys(w for text in texts for w in text))}
        self._vocabulary = vocabulary
        self._index = bm25s.BM25()
        tokens = ([[vocabulary[word] for word in text] for text in texts], vocabulary)
        self._index.index(tokens, show_progress=False)  # pyright: ignore[reportUnknownMemberType]

    def search(self, query: str, k: int) -> tuple[Document, ...]:
        """At most ``k`` documents that share a word with the query; equal scores in the order of the corpus."""
        return tuple(document for document, _ in self.search_scored(query, k))

    def search_scored(self, query: str, k: int) -> tuple[tuple[Document, float], ...]:
        """The same, with the scores."""
        asked = sorted({self._vocabulary[word] for word in words(query) if word in self._vocabulary})
        if not asked:
            return ()
        scores: NDArray[np.float32] = self._index.get_scores_from_ids(asked)  # pyright: ignore[reportUnknownMemberType]
        best = np.lexsort((np.arange(len(scores)), -scores))[:k]
        return tuple(
            (self._documents[int(number)], float(scores[number])) for number in best if scores[number] > 0
        )
