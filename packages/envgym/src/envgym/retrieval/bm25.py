"""The ``bm25`` retriever: an index in this process, built once and shared."""

import unicodedata

import bm25s  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
from numpy.typing import NDArray

from envgym.fold import CharacterTable, fold
from envgym.retrieval.corpus import Document

_UNSPACED = (("\u3040", "\u30ff"), ("\u3400", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff"))
"""Kana and Han, from first to last: scripts without spaces, of which each character is taken for a word."""


def words(text: str) -> list[str]:
    """The words of a text, case and accents folded; letters and digits of any script.

    >>> words("Beyoncé's 2nd album: 東京")
    ['beyonce', 's', '2nd', 'album', '東', '京']
    """
    return fold(text).translate(_CHARACTERS).split()


def _spell_character(character: str) -> str:
    if any(first <= character <= last for first, last in _UNSPACED):
        return f" {character} "
    return character if unicodedata.category(character)[0] in "LMN" else " "


_CHARACTERS = CharacterTable(_spell_character)


class Bm25Retriever:
    """Ranks documents by BM25 over title and text (Robertson et al. 1994, Lucene's variant, k1 1.5, b 0.75)."""

    def __init__(self, documents: tuple[Document, ...]) -> None:
        """Build the index."""
        self._documents = documents
        texts = [words(document.contents) for document in documents]
        vocabulary = {word: number for number, word in enumerate(dict.fromkeys(w for text in texts for w in text))}
        self._vocabulary = vocabulary
        self._index = bm25s.BM25()
        if not vocabulary:
            return  # documents without a word; bm25s cannot index nothing
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
        return tuple((self._documents[int(number)], float(scores[number])) for number in _best(scores, k))


def _best(scores: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Positions of the ``k`` highest scores above 0, highest first; equal ones in their order."""
    found = np.flatnonzero(scores > 0)
    if len(found) > k:
        least = np.partition(scores[found], -k)[-k]
        found = found[scores[found] >= least]
    return found[np.argsort(-scores[found], kind="stable")][:k]
