# pyright: strict
"""Learning rates as a function of the step."""

import math

SCHEDULES = ("constant", "linear", "cosine")


def learning_rate(peak: float, schedule: str, step: int, *, warmup_steps: int, total_steps: int) -> float:
    """The learning rate of one step.

    It rises linearly over ``warmup_steps`` and then stays (``constant``) or falls (``linear``, ``cosine``) towards
    0, which it would reach one step behind the last.

    Args:
        peak: the highest rate.
        schedule: one of ``SCHEDULES``.
        step: from 1.
        warmup_steps: steps of the rise.
        total_steps: the last step.

    >>> [round(learning_rate(1.0, "linear", step, warmup_steps=2, total_steps=6), 2) for step in range(1, 7)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step <= warmup_steps:
        return peak * step / warmup_steps
    done = (step - warmup_steps - 1) / max(1, total_steps - warmup_steps)
    if schedule == "linear":
        return peak * (1.0 - done)
    if schedule == "cosine":
        return peak * 0.5 * (1.0 + math.cos(math.pi * done))
    return peak
