"""Where a turn ends: at an EOS id, or at a stop string wherever its tokens end."""

from collections.abc import Sequence
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

    Text is decoded only where the id just sampled holds the last character of a stop string, so the cost of a
    turn stays linear in its ids for stop strings whose last character is rare.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, eos_ids: tuple[int, ...]) -> None:
        """Decode with ``tokenizer``; ``eos_ids`` end a turn."""
        self._tokenizer = tokenizer
        self.eos_ids = eos_ids
        self._eos = frozenset(eos_ids)
        self._enders = lru_cache(maxsize=16)(self._find_enders)

    def end_of(self, ids: Sequence[int], stop: tuple[str, ...]) -> End | None:
        """Whether the turn sampled so far ends with its last id; earlier ids are known not to have ended it.

        Where one id completes two stop strings, the one that is complete first counts.
        """
        if ids[-1] in self._eos:
            return End(text=self.decode(ids), stop_string=None)
        if stop and ids[-1] in self._enders(stop):
            text = self.decode(ids)
            places = [(text.find(string) + len(string), string) for string in stop if string in text]
            if places:
                end, string = min(places)
                return End(text=text[:end], stop_string=string)
        return None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled ids, without a final EOS id."""
        kept = ids[:-1] if ids and ids[-1] in self._eos else ids
        return str(
            self._tokenizer.decode(list(kept), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    def _find_enders(self, stop: tuple[str, ...]) -> frozenset[int]:
        """Ids whose text holds the last character of a stop string, or may hold a part of one (\ufffd)."""
        last = {string[-1] for string in stop} | {"\ufffd"}
        texts = self._tokenizer.batch_decode([[token] for token in range(len(self._tokenizer))])
        return frozenset(token for token, text in enumerate(texts) if not last.isdisjoint(text))
