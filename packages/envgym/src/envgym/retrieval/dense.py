"""The ``dense`` retriever: a sentence encoder and a faiss index, in process.

Any encoder that transformers loads will do. Texts are prefixed as the encoder was trained (``query: `` and
``passage: `` for E5), pooled over their tokens and scaled to unit length, so that the inner product is the cosine.
The vectors of a corpus are computed once and kept in envgym's cache folder.

Needs the extra ``dense``. This is the only file of envgym that imports torch, transformers and faiss.
"""

import hashlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from envgym.cache import cache_folder, make_once
from envgym.errors import SetupError
from envgym.extra import missing_extra
from envgym.retrieval.corpus import Document

# These have no complete types, so they are used untyped; what goes in and comes out of them is typed below.
try:
    faiss: Any = import_module("faiss")
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
except ImportError as error:
    raise missing_extra("dense", "retriever 'dense'", error) from error

Pooling: TypeAlias = Literal["mean", "cls"]
Vectors: TypeAlias = NDArray[np.float32]

FORMAT = "1"  # of the cached index; part of its key
FINGERPRINT_VALUES = 4096  # of each parameter
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseSettings:
    """Which encoder, and how it is used."""

    encoder: str = "intfloat/e5-base-v2"
    """A name on the hub or a folder."""
    query_prefix: str = "query: "
    passage_prefix: str = "passage: "
    pooling: Pooling = "mean"
    """``mean`` over the tokens that are not padding, or ``cls``: the first token."""
    max_tokens: int = 512
    """Longer texts are cut; an encoder with fewer positions cuts earlier."""
    batch_size: int = 64
    device: str | None = None
    """For example ``cuda:0``; by default a GPU if there is one, else the CPU."""

    def __post_init__(self) -> None:
        if self.pooling not in get_args(Pooling):
            raise SetupError(f"pooling is {self.pooling!r}; it must be one of: {', '.join(get_args(Pooling))}")
        if self.max_tokens < 1 or self.batch_size < 1:
            raise SetupError(
                f"max_tokens is {self.max_tokens} and batch_size {self.batch_size}; both must be at least 1"
            )


class Encoder:
    """Turns texts into unit vectors. Safe to call from several threads, one at a time."""

    def __init__(self, settings: DenseSettings) -> None:
        """Load the model.

        Raises:
            SetupError: if there is no such encoder.
        """
        self.settings = settings
        self._device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(settings.encoder)
            self._model = transformers.AutoModel.from_pretrained(settings.encoder, dtype=torch.float32)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise SetupError(f"cannot load the encoder {settings.encoder!r}: {reason}") from error
        self._model.to(self._device).eval()
        positions = getattr(self._model.config, "max_position_embeddings", settings.max_tokens)
        self._max_tokens = min(settings.max_tokens, self._tokenizer.model_max_length, positions)
        self._lock = threading.Lock()  # a fast tokenizer refuses to be used by two threads at once

    def encode_query(self, query: str) -> Vectors:
        """[1, D]."""
        return self._encode([self.settings.query_prefix + query])

    def encode_passages(self, passages: Sequence[str]) -> Vectors:
        """[N, D]. Texts of like length share a batch, so that little is padded."""
        order = sorted(range(len(passages)), key=lambda index: len(passages[index]))
        size = self.settings.batch_size
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        vectors: list[Vectors] = []
        for number, batch in enumerate(batches):
            logger.info("encoding passages: batch %d of %d", number + 1, len(batches))
            vectors.append(self._encode([self.settings.passage_prefix + passages[index] for index in batch]))
        return np.concatenate(vectors)[np.argsort(order)]

    def _encode(self, texts: Sequence[str]) -> Vectors:
        with self._lock, torch.inference_mode():
            batch = self._tokenizer(
                list(texts), padding=True, truncation=True, max_length=self._max_tokens, return_tensors="pt"
            ).to(self._device)
            hidden = self._model(**batch).last_hidden_state  # [N, T, D]
            pooled = hidden[:, 0] if self.settings.pooling == "cls" else _mean(hidden, batch["attention_mask"])
            return torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy()

    def fingerprint(self) -> str:
        """SHA-256 of the parameters' names, shapes and first values."""
        digest = hashlib.sha256()
        for name, parameter in sorted(self._model.named_parameters()):
            first = parameter.detach().flatten()[:FINGERPRINT_VALUES].cpu().numpy()
            digest.update(f"{name} {tuple(parameter.shape)} ".encode() + first.astype("<f4").tobytes())
        return digest.hexdigest()


def _mean(hidden: Any, mask: Any) -> Any:
    """The mean over each text's own tokens: hidden [N, T, D], mask [N, T] (1 for a token, 0 for padding)."""
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1)


class DenseRetriever:
    """Finds the documents whose vectors are closest to the query's."""

    def __init__(self, documents: Sequence[Document], settings: DenseSettings) -> None:
        """Load the encoder, and the index of these documents, which is computed if it is not in the cache."""
        self._documents = documents
        self._settings = settings
        self._encoder = Encoder(settings)
        folder = cache_folder() / "dense" / _key(documents, settings, self._encoder)
        make_once(folder, lambda aside: self._write_index(aside / "index.faiss"))
        self._index = faiss.read_index(str(folder / "index.faiss"))

    def __reduce__(self) -> tuple[type["DenseRetriever"], tuple[Sequence[Document], DenseSettings]]:
        """A copy in another process loads its own encoder; the index is in the cache."""
        return DenseRetriever, (self._documents, self._settings)

    def _write_index(self, path: Path) -> None:
        vectors = self._encoder.encode_passages([document.contents for document in self._documents])
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        faiss.write_index(index, str(path))

    def search(self, query: str, k: int) -> tuple[Document, ...]:
        """At most ``k`` documents, the closest first."""
        return tuple(document for document, _ in self.search_scored(query, k))

    def search_scored(self, query: str, k: int) -> tuple[tuple[Document, float], ...]:
        """The same, with their cosines."""
        scores, numbers = self._index.search(self._encoder.encode_query(query), k)
        return tuple(
            (self._documents[int(number)], float(score))
            for number, score in zip(numbers[0], scores[0], strict=True)
            if number >= 0  # faiss fills up with -1
        )


def _key(documents: Sequence[Document], settings: DenseSettings, encoder: Encoder) -> str:
    """What the index depends on, as a file name."""
    digest = hashlib.sha256()
    facts = (FORMAT, encoder.fingerprint(), settings.passage_prefix, settings.pooling, str(settings.max_tokens))
    for text in (*facts, *(document.contents for document in documents)):
        encoded = text.encode("utf-8", errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()[:32]
