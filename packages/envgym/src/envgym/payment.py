"""Paying several attempts at one task so that being right at the first is the best that can be done."""

from envgym.errors import SetupError


class BestAttempt:
    """Pays each attempt what it adds to the best attempt so far, later attempts being worth less.

    An attempt with score ``s > 0`` at turn ``k`` of ``n`` is worth ``s · (1 − late_cost · (k − 1) / n)``, one with
    ``s ≤ 0`` is worth ``s``. The rewards of an episode add up to the worth of its best attempt, so no sequence of
    attempts earns more than the highest score at the first. What is below zero is paid at the end, and only if no
    attempt was worth more.

        >>> payment = BestAttempt(max_turns=5, late_cost=0.5)
        >>> [round(payment.pay(score, last=last), 6) for score, last in ((0.1, False), (0.1, False), (1.0, True))]
        [0.1, 0.0, 0.7]
    """

    def __init__(self, *, max_turns: int, late_cost: float) -> None:
        """``late_cost`` in [0, 1]: the share of a score that would be lost by waiting ``max_turns`` turns."""
        self._per_turn = check_late_cost(late_cost) / max_turns
        self._turn = 0
        self._best: float | None = None

    def pay(self, score: float, *, last: bool) -> float:
        """The reward of one attempt; ``last`` says that the episode ends with it."""
        worth = score * (1 - self._per_turn * self._turn) if score > 0 else score
        paid = max(self._best or 0.0, 0.0)
        self._best = worth if self._best is None else max(self._best, worth)
        self._turn += 1
        return min(self._best, 0.0) if last and self._best < 0 else max(worth - paid, 0.0)


def check_late_cost(late_cost: float) -> float:
    """Return it, or raise ``SetupError`` where it is not a share."""
    if not 0 <= late_cost <= 1:
        raise SetupError(f"late_cost is {late_cost}; it must be between 0 and 1")
    return late_cost
