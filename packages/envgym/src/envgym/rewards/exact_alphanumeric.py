"""Comparing an answer with the gold by letters and digits alone."""

import unicodedata

from envgym.errors import BadGoldError
from envgym.rewards.answer_tag import find_answer
from envgym.rewards.outcome import Outcome, verdict_outcome

_VARIATION_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))


def exact_answer_alphanumeric_reward(ground_truth: str, response: str, answer_tag: str = "answer") -> Outcome:
    """Give 1.0 if the tagged answer has the letters and digits of the gold, in order, case aside.

    Both are compared after Unicode's compatibility folding, so that ``x²`` is ``x2`` and ``ß`` is ``ss``.
    A gold without a letter or digit is compared as it stands.

    Raises:
        BadGoldError: if the gold is blank.
        ValueError: if the tag name is malformed.

    >>> exact_answer_alphanumeric_reward("Hello123", "<answer>HELLO-123!</answer>").reward
    1.0
    """
    answer = find_answer(response, answer_tag)
    gold = ground_truth.strip()
    if not gold:
        raise BadGoldError("the ground truth is blank")
    if answer is None:
        return Outcome(0.0, False, "no_answer")
    gold_key, answer_key = alphanumeric_key(gold), alphanumeric_key(answer)
    return verdict_outcome(gold_key == answer_key if gold_key else gold == answer)


def alphanumeric_key(text: str) -> str:
    """Fold compatibility forms and case, then keep letters, digits and the marks that belong to letters.

    >>> alphanumeric_key("Straße 5²")
    'strasse52'
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(char for char in folded if char.isalnum() or _is_mark(char))


def _is_mark(char: str) -> bool:
    """Whether the character completes a letter: an accent that has no composed form, an Indic vowel sign."""
    return unicodedata.category(char) in ("Mn", "Mc") and char not in _VARIATION_SELECTORS
