"""Rewards for short answers between tags: exact match, F1 and cover match."""

from collections.abc import Callable, Sequence

from envgym.errors import BadGoldError, SetupError
from envgym.rewards.answer import MODES, Mode, cover_match, exact_match, f1
from envgym.rewards.answer_tag import find_answer
from envgym.rewards.outcome import Outcome


def exact_match_reward(
    ground_truth: str | Sequence[str], response: str, answer_tag: str = "answer", mode: Mode = "default"
) -> Outcome:
    """Give 1.0 if the tagged answer is one of the accepted ones; see ``envgym.rewards.answer`` for the modes.

    >>> exact_match_reward(["Ada Lovelace"], "<answer>ada lovelace</answer>").reward
    1.0
    """
    return _score(ground_truth, response, answer_tag, mode, lambda answer, golds: exact_match(answer, golds, mode))


def f1_reward(
    ground_truth: str | Sequence[str], response: str, answer_tag: str = "answer", mode: Mode = "default"
) -> Outcome:
    """Give the token F1 of the tagged answer against the nearest accepted one; right is what exact match calls so.

    >>> f1_reward("King of France", "<answer>king of Spain</answer>")
    Outcome(0.6666666666666666, False, status='ok', terms={})
    """
    return _score(ground_truth, response, answer_tag, mode, lambda answer, golds: f1(answer, golds, mode))


def cover_match_reward(
    ground_truth: str | Sequence[str], response: str, answer_tag: str = "answer", mode: Mode = "default"
) -> Outcome:
    """Give 1.0 if the tagged answer contains an accepted one, word for word.

    Naming many candidates at once passes too; take it where answers are sentences.
    """
    return _score(
        ground_truth,
        response,
        answer_tag,
        mode,
        lambda answer, golds: cover_match(answer, golds, mode),
        lenient=True,
    )


def _score(
    ground_truth: str | Sequence[str],
    response: str,
    answer_tag: str,
    mode: Mode,
    measure: Callable[[str, Sequence[str]], float],
    *,
    lenient: bool = False,
) -> Outcome:
    if mode not in MODES:
        raise SetupError(f"mode is {mode!r}; it must be one of {', '.join(MODES)}")
    golds = [ground_truth] if isinstance(ground_truth, str) else list(ground_truth)
    if not any(gold.strip() for gold in golds):
        raise BadGoldError("the ground truth is blank")
    answer = find_answer(response, answer_tag)
    if answer is None:
        return Outcome(0.0, False, "no_answer")
    reward = float(measure(answer, golds))
    return Outcome(reward, reward == 1.0 if lenient else exact_match(answer, golds, mode))
