"""Ways to change the cells of a column. Pure: cells and a random generator in, cells out, as many as before."""

import math
from collections.abc import Sequence

import numpy as np

from envgym.sql.table import Cell

CODE_RANGE = 10  # whole numbers that span no more than this may be codes, ranks or truth values
SHIFT = 0.1  # of a measure's range, at most
NEW_WORDS = 0.1  # share of the cells of a text column


def is_numeric(cells: Sequence[Cell]) -> bool:
    """Whether a column holds nothing but numbers and NULL."""
    return all(cell is None or isinstance(cell, int | float) for cell in cells)


def is_measure(cells: Sequence[Cell]) -> bool:
    """Whether a column's numbers measure something: they span a wide range or have decimals.

    >>> is_measure([1, 2, 3]), is_measure([1, 20, 300]), is_measure([0.5, 1.0])
    (False, True, True)
    """
    numbers = _numbers(cells)
    return len(set(numbers)) > 1 and (max(numbers) - min(numbers) > CODE_RANGE or _places(numbers) > 0)


def _numbers(cells: Sequence[Cell]) -> list[int | float]:
    return [cell for cell in cells if isinstance(cell, int | float) and math.isfinite(cell)]


def _places(numbers: Sequence[float]) -> int:
    """Digits behind the point that a column's numbers have, at most six."""
    fractions = (f"{number:.6f}".rstrip("0").partition(".")[2] for number in numbers)
    return max(map(len, fractions), default=0)


def relabel(cells: Sequence[Cell], rng: np.random.Generator) -> list[Cell]:
    """Let the different values of a column change places: every cell with the one gets the other.

    What is most frequent becomes another value, and which cells are equal does not change.
    """
    labels = list(dict.fromkeys(cell for cell in cells if cell is not None))
    order = rng.permutation(len(labels))
    label_of = {label: labels[int(place)] for label, place in zip(labels, order, strict=True)}
    return [None if cell is None else label_of[cell] for cell in cells]


def shift_numbers(cells: Sequence[Cell], rng: np.random.Generator) -> list[Cell]:
    """Shift each number by up to a tenth of the column's range. Different numbers stay different, signs remain."""
    numbers = _numbers(cells)
    places = _places(numbers)
    step, floor = 10.0**-places, _floor(numbers, places)
    furthest = max(step, SHIFT * (max(numbers) - min(numbers)))
    has_duplicates = len(set(numbers)) < len(numbers)
    taken: set[float] = set()
    shifted: list[Cell] = []
    for cell in cells:
        if not (isinstance(cell, int | float) and math.isfinite(cell)):
            shifted.append(cell)
            continue
        number = max(floor, round(cell + float(rng.uniform(-furthest, furthest)), places))
        while number in taken and not has_duplicates:
            number = round(number + step, places)
        taken.add(number)
        shifted.append(int(number) if isinstance(cell, int) else number)
    return shifted


def _floor(numbers: Sequence[float], places: int) -> float:
    """What no shifted number falls below: zero, or one for counts that start there."""
    low = min(numbers)
    if low < 0:
        return -math.inf
    return 1.0 if low >= 1 and not places else 0.0


def put_new_words(cells: Sequence[Cell], rng: np.random.Generator) -> list[Cell]:
    """Put words that did not occur into some cells. Truth values, dates and codes with digits stay as they are."""
    present = {cell for cell in cells if isinstance(cell, str)}
    wordy = [row for row, cell in enumerate(cells) if isinstance(cell, str) and _is_words(cell)]
    changed = list(cells)
    if len(present) < 3 or not wordy:
        return changed
    for row in rng.choice(wordy, size=math.ceil(NEW_WORDS * len(wordy)), replace=False):
        word = str(cells[int(row)]).translate(_RESPELLING)
        changed[int(row)] = word if word not in present else cells[int(row)]
    return changed


def _is_words(text: str) -> bool:
    return any(letter.isalpha() for letter in text) and not any(letter.isdigit() for letter in text)


def _rotate(letters: str) -> dict[int, str]:
    return {ord(letter): letters[(index + 1) % len(letters)] for index, letter in enumerate(letters)}


_RESPELLING = {
    code: letter
    for letters in ("aeiou", "AEIOU", "bcdfghjklmnpqrstvwxyz", "BCDFGHJKLMNPQRSTVWXYZ")
    for code, letter in _rotate(letters).items()
}


def trim(cells: Sequence[Cell]) -> list[Cell]:
    """Take the blanks around texts away."""
    return [cell.strip() if isinstance(cell, str) else cell for cell in cells]
