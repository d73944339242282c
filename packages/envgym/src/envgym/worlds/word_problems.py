"""The embedded tasks of the ``gsm8k`` env: word problems made by code, in words of our own.

A problem follows one amount through a few events. Its level is the number of events; numbers grow with the level,
and level 4 also states a number that has nothing to do with the answer. Every amount on the way is a whole number
of at least 2. Training and evaluation problems share neither people nor things, hence no problem either.

    >>> task = make_problems(seed=0, level=1)["train"][0]
    >>> task.answer["solution"].endswith(f"= {task.answer['number']}")
    True
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from envgym.env import Split
from envgym.messages import Task

LEVELS = (1, 2, 3, 4)
PROBLEMS: Mapping[Split, int] = {"train": 500, "eval": 150}  # of each level
LARGEST = (20, 40, 80, 120)  # the largest number that a problem of each level states, prices and the like aside

PEOPLE: Mapping[Split, tuple[str, ...]] = {
    "train": (
        "Adele", "Bruno", "Carla", "Dmitri", "Elif", "Farid", "Greta", "Hana", "Ivo", "Jasmin", "Kofi", "Lena",
        "Milan", "Noor", "Oskar", "Pilar", "Quentin", "Rosa", "Samir", "Tilda",
    ),
    "eval": ("Ulla", "Viktor", "Wanda", "Xenia", "Yusuf", "Zora", "Amadou", "Birgit", "Chiara", "Dario"),
}  # fmt: skip
THINGS: Mapping[Split, tuple[str, ...]] = {
    "train": (
        "acorns", "beads", "candles", "eggs", "figs", "lanterns", "marbles", "onions", "pears", "ribbons",
        "seashells", "stamps", "tulips", "walnuts", "whistles", "buttons",
    ),
    "eval": ("plums", "spoons", "kites", "corks", "badges", "lemons", "pebbles", "scarves"),
}  # fmt: skip

START = ("{who} has {n} {what}.", "{who} starts with {n} {what}.", "On Monday {who} counts {n} {what}.")
ASIDES = (
    "The walk to the market takes {n} minutes.",
    "{who}'s house has the number {n}.",
    "It is day {n} of the year.",
    "{who}'s grandmother is {n} years old.",
)
QUESTION = ("How many {what} does {who} have now?", "How many {what} are left with {who} in the end?")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Event:
    """Something that changes the amount.

    ``choices(amount, largest)`` are the numbers that it may happen with (none where it cannot happen at all), and
    ``steps(amount, n)`` computes what it leaves. A ``question`` of its own makes it the last event of a problem.
    """

    wordings: tuple[str, ...]
    choices: Callable[[int, int], range | tuple[int, ...]]
    steps: Callable[[int, int], tuple[tuple[str, int], ...]]
    question: str | None = None


def _plus(a: int, n: int) -> tuple[tuple[str, int], ...]:
    return ((f"{a} + {n}", a + n),)


def _minus(a: int, n: int) -> tuple[tuple[str, int], ...]:
    return ((f"{a} - {n}", a - n),)


def _times(a: int, n: int) -> tuple[tuple[str, int], ...]:
    return ((f"{a} * {n}", a * n),)


def _divided(a: int, n: int) -> tuple[tuple[str, int], ...]:
    return ((f"{a} / {n}", a // n),)


def _less_percent(a: int, n: int) -> tuple[tuple[str, int], ...]:
    part = a * n // 100
    return ((f"{a} * {n} / 100", part), (f"{a} - {part}", a - part))


def _divisors(a: int, _: int) -> tuple[int, ...]:
    return tuple(n for n in range(2, 13) if a % n == 0 and a // n >= 2)


def _percents(a: int, _: int) -> tuple[int, ...]:
    return tuple(n for n in (10, 20, 25, 50, 75) if a * n % 100 == 0 and a * min(n, 100 - n) >= 200)


EVENTS = (
    _Event(
        wordings=(
            "{who} buys {n} more {what}.",
            "A neighbour brings {who} {n} more {what}.",
            "Then {who} finds another {n} {what} in the shed.",
        ),
        choices=lambda a, largest: range(2, largest + 1),
        steps=_plus,
    ),
    _Event(
        wordings=(
            "{who} gives {n} {what} to a friend.",
            "Then {n} of the {what} get lost on the way home.",
            "{who} trades {n} of the {what} for a book.",
        ),
        choices=lambda a, largest: range(2, min(largest, a - 2) + 1),
        steps=_minus,
    ),
    _Event(
        wordings=(
            "A week later {who} has {n} times as many {what}.",
            "{who} keeps collecting until there are {n} times as many {what}.",
        ),
        choices=lambda a, largest: (2, 3, 4) if a <= largest else (),
        steps=_times,
    ),
    _Event(
        wordings=(
            "{who} splits the {what} evenly into {n} baskets and keeps a single basket.",
            "{who} and some friends, {n} people in all, share the {what} equally, and {who} takes one share.",
        ),
        choices=_divisors,
        steps=_divided,
    ),
    _Event(
        wordings=(
            "Overnight {n} percent of the {what} are stolen.",
            "{who} hands {n} percent of the {what} to a school.",
        ),
        choices=_percents,
        steps=_less_percent,
    ),
    _Event(
        wordings=("{who} packs all of the {what} into bags that hold {n} each.",),
        choices=_divisors,
        steps=_divided,
        question="How many bags does {who} fill?",
    ),
    _Event(
        wordings=("{who} sells all of the {what} for {n} coins apiece.",),
        choices=lambda a, largest: range(2, 10),
        steps=_times,
        question="How many coins does {who} receive?",
    ),
)  # fmt: skip
INNER_EVENTS = tuple(event for event in EVENTS if event.question is None)


@lru_cache(maxsize=8)
def make_problems(seed: int = 0, level: int | None = None) -> Mapping[Split, tuple[Task, ...]]:
    """Make the problems of this seed: those of one level, or of all levels shuffled together.

    ``Task.data`` holds ``question`` and ``level``; ``Task.answer`` holds ``number`` (text) and ``solution``, one
    computation a line. A level's problems are the same whether it is asked for alone or among all.
    """
    levels = LEVELS if level is None else (level,)
    splits: tuple[Split, ...] = ("train", "eval")
    return {split: _mix([_make_level(seed, split, each) for each in levels], seed) for split in splits}


def _mix(levels: list[tuple[Task, ...]], seed: int) -> tuple[Task, ...]:
    tasks = [task for level in levels for task in level]
    return tuple(tasks[int(index)] for index in np.random.default_rng([seed, 0xC0DE]).permutation(len(tasks)))


def _make_level(seed: int, split: Split, level: int) -> tuple[Task, ...]:
    rng = np.random.default_rng([seed, level, PROBLEMS[split], 0x3A7])
    problems: dict[str, Task] = {}
    while len(problems) < PROBLEMS[split]:
        question, steps = _make_problem(rng, split, level)
        problems.setdefault(
            question,
            Task(
                id=f"{split}-{level}-{len(problems)}",
                data={"question": question, "level": level},
                answer={"number": str(steps[-1][1]), "solution": "\n".join(f"{left} = {n}" for left, n in steps)},
            ),
        )
    return tuple(problems.values())


def _make_problem(rng: np.random.Generator, split: Split, level: int) -> tuple[str, list[tuple[str, int]]]:
    """One problem: its wording, and the computations that solve it."""
    who, what = _pick(rng, PEOPLE[split]), _pick(rng, THINGS[split])
    largest = LARGEST[level - 1]
    amount = int(rng.integers(4, largest + 1))
    sentences = [_pick(rng, START).format(who=who, what=what, n=amount)]
    steps: list[tuple[str, int]] = []
    question = _pick(rng, QUESTION)
    for event, n in _draw_events(rng, amount, level, largest):
        sentences.append(_pick(rng, event.wordings).format(who=who, what=what, n=n))
        steps += event.steps(steps[-1][1] if steps else amount, n)
        question = event.question or question
    if level == LEVELS[-1]:
        aside = _pick(rng, ASIDES).format(who=who, n=int(rng.integers(51, 99)))
        sentences.insert(int(rng.integers(1, len(sentences) + 1)), aside)
    return " ".join([*sentences, question.format(who=who, what=what)]), steps


def _draw_events(rng: np.random.Generator, amount: int, count: int, largest: int) -> Iterator[tuple[_Event, int]]:
    """``count`` events and their numbers: none twice in a row, one with a question of its own only at the end."""
    event: _Event | None = None
    for left in reversed(range(count)):
        others = [other for other in (EVENTS if left == 0 else INNER_EVENTS) if other is not event]
        possible = [(other, choices) for other in others if (choices := other.choices(amount, largest))]
        event, choices = possible[int(rng.integers(len(possible)))]
        n = choices[int(rng.integers(len(choices)))]
        amount = event.steps(amount, n)[-1][1]
        yield event, n


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]
