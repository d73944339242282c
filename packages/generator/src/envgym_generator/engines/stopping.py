"""Where a turn ends: at an EOS id, or at a stop string wherever its tokens end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """The end of a turn."""

    text: str
    """The action: without the EOS id, or cut behind the stop string."""
    stop_string: str | None


class Stopping:
    """Decides after each sampled id whether the turn is over.

    Text is decoded only where the id just sampled may hold the last character of a stop string, and then only as
    far back as a stop string can reach, so a turn costs time linear in its ids.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, eos_ids: tuple[int, ...]) -> None:
        """Decode with ``tokenizer``; ``eos_ids`` end a turn."""
        self._tokenizer = tokenizer
        self.eos_ids = eos_ids
        self._eos = frozenset(eos_ids)
        self._token_texts: dict[int, str] = {}

    def end_of(self, ids: Sequence[int], stop: tuple[str, ...]) -> End | None:
        """Whether the turn sampled so far ends with its last id; earlier ids are known not to have ended it.

        Where one id completes two stop strings, the one that is complete first counts.
        """
        if ids[-1] in self._eos:
            return End(text=self.decode(ids), stop_string=None)
        if not stop or not self._may_end(ids[-1], _last_characters(stop)):
            return None
        if first_stop(self._tail(ids, stop), stop) is None:
            return None
        text = self.decode(ids)
        found = first_stop(text, stop)
        return End(text=text[: found[0]], stop_string=found[1]) if found else None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, without a final EOS id."""
        return self._text(ids[:-1] if ids and ids[-1] in self._eos else ids)

    def _text(self, ids: Sequence[int]) -> str:
        return str(
            self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    def _tail(self, ids: Sequence[int], stop: tuple[str, ...]) -> str:
        """The text of the last ids, enough for any stop string: a character is at most four tokens, one a byte."""
        return self._text(ids[-4 * (max(map(len, stop)) + 1) :])

    def _may_end(self, token: int, last: frozenset[str]) -> bool:
        """Whether a token holds the last character of a stop string, or a part of some character (\ufffd)."""
        text = self._token_texts.get(token)
        if text is None:
            text = self._token_texts[token] = self._text([token])
        return "\ufffd" in text or not last.isdisjoint(text)


@lru_cache(maxsize=64)
def _last_characters(stop: tuple[str, ...]) -> frozenset[str]:
    return frozenset(string[-1] for string in stop)


def first_stop(text: str, stop: Iterable[str]) -> tuple[int, str] | None:
    """The stop string that is complete first, with the place behind it; of several, the first named.

    >>> first_stop("ab</a></b>", ["</b>", "</a>"])
    (6, '</a>')
    """
    ends = [(text.find(string) + len(string), string) for string in stop if string in text]
    return min(ends, key=lambda end: end[0], default=None)
