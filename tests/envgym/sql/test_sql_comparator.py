import itertools
import random
import time

import pytest

from envgym.errors import SetupError
from envgym.sql.comparator import MODES, check_mode, compare
from envgym.sql.table import Cell, Table


def table(*rows: tuple[Cell, ...], width: int | None = None) -> Table:
    columns = width if width is not None else len(rows[0]) if rows else 1
    return Table(columns=tuple(f"c{number}" for number in range(columns)), rows=rows)


def equal(gold: Table, predicted: Table, mode: str, **more) -> bool | None:
    return compare(gold, predicted, mode=check_mode(mode), **more).equal


@pytest.mark.parametrize(
    ("mode", "reordered", "duplicated", "columns_swapped", "column_added"),
    [
        ("ordered", True, False, False, False),
        ("bag", True, False, False, False),
        ("set", True, True, False, False),
        ("permuted", True, False, True, False),
        ("subset", True, False, True, True),
    ],
)
def test_each_mode_forgives_what_it_says(mode, reordered, duplicated, columns_swapped, column_added):
    gold = table((1, "a"), (2, "b"))
    assert equal(gold, table((1, "a"), (2, "b")), mode)
    assert equal(gold, table((2, "b"), (1, "a")), mode) is reordered
    assert equal(gold, table((1, "a"), (2, "b"), (2, "b")), mode) is duplicated
    assert equal(gold, table(("a", 1), ("b", 2)), mode) is columns_swapped
    assert equal(gold, table(("a", 9, 1), ("b", 9, 2)), mode) is column_added
    assert not equal(gold, table((1, "b"), (2, "a")), mode)
    assert not equal(gold, table((1, "a")), mode)


@pytest.mark.parametrize(("mode", "counts"), [(mode, mode in ("ordered", "permuted", "subset")) for mode in MODES])
def test_the_golds_order_counts_where_it_asks_for_one(mode, counts):
    gold = table((1,), (2,), (2,))
    assert equal(gold, table((1,), (2,), (2,)), mode, in_order=True)
    assert equal(gold, table((2,), (1,), (2,)), mode, in_order=True) is not counts


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_result_equals_only_an_empty_one(mode):
    assert equal(table(), table(), mode)
    assert not equal(table((1,)), table(), mode)
    assert not equal(table(), table((None,)), mode)


@pytest.mark.parametrize("mode", ["ordered", "bag", "permuted"])
def test_empty_results_of_different_width_differ(mode):
    assert not equal(table(width=2), table(width=1), mode)


@pytest.mark.parametrize("mode", MODES)
def test_null_equals_null_and_nothing_else(mode):
    assert equal(table((None,)), table((None,)), mode)
    assert not any(equal(table((None,)), table((cell,)), mode) for cell in (0, "", "NULL", b""))


@pytest.mark.parametrize("mode", MODES)
def test_kinds_of_cells_are_told_apart(mode):
    cells = (1, "1", b"1", "a", "A", "a ")
    for left, right in itertools.permutations(cells, 2):
        assert not equal(table((left,)), table((right,)), mode)


@pytest.mark.parametrize("mode", MODES)
def test_floats_within_the_tolerance_are_equal(mode):
    third = 1 / 3
    gold = table((0.1 + 0.2, "a"), (third, "b"), (1e6 * third, "c"), (5, "d"), (float("inf"), "e"))
    near = table((0.3, "a"), (third + 1e-12, "b"), (1e6 * third + 1e-6, "c"), (5.0, "d"), (float("inf"), "e"))
    assert equal(gold, near, mode)
    assert not equal(gold, table((0.30001, "a"), *near.rows[1:]), mode)
    assert not equal(gold, table(*near.rows[:3], (6.0, "d"), near.rows[4]), mode)


def test_near_floats_match_in_any_order_of_their_rows():
    gold = table((1.0, "a"), (1.0 + 1e-12, "b"))
    assert equal(gold, table((1.0, "b"), (1.0 + 1e-12, "a")), "bag")


def test_whole_numbers_are_compared_exactly():
    assert not equal(table((1_700_000_000,)), table((1_700_000_001,)), "ordered")
    assert equal(table((2_000_000_000.0,)), table((2_000_000_000,)), "ordered")


def test_the_tolerance_is_an_argument():
    assert equal(table((1.0,)), table((1.01,)), "ordered", tolerance=0.02)
    assert not equal(table((1.5,)), table((1.5 + 1e-12,)), "ordered", tolerance=0.0)


def test_26_equal_columns_cost_nothing():
    wide = table(*[(number,) * 26 for number in range(50)])
    started = time.perf_counter()
    assert equal(wide, table(*reversed(wide.rows)), "permuted")
    assert equal(wide, table(*[(number,) * 25 + (number + 1,) for number in range(50)]), "permuted") is False
    assert time.perf_counter() - started < 0.5


def test_random_permutations_of_rows_and_columns_are_recognised():
    rng = random.Random(3)
    for _ in range(200):
        width, height = rng.randint(1, 7), rng.randint(1, 12)
        rows = [tuple(rng.randint(0, 2) for _ in range(width)) for _ in range(height)]
        order = rng.sample(range(width), width)
        shuffled = [tuple(row[place] for place in order) for row in rng.sample(rows, height)]
        assert equal(table(*rows), table(*shuffled), "permuted")


def test_permuted_agrees_with_trying_all_permutations():
    rng = random.Random(4)
    for _ in range(300):
        rows = [tuple(rng.randint(0, 1) for _ in range(4)) for _ in range(4)]
        other = [tuple(rng.randint(0, 1) for _ in range(4)) for _ in range(4)]
        possible = any(
            sorted(tuple(row[place] for place in order) for row in other) == sorted(rows)
            for order in itertools.permutations(range(4))
        )
        assert equal(table(*rows), table(*other), "permuted") is possible


def test_subset_agrees_with_trying_all_choices_of_columns():
    rng = random.Random(5)
    for _ in range(300):
        rows = [tuple(rng.randint(0, 1) for _ in range(2)) for _ in range(4)]
        other = [tuple(rng.randint(0, 1) for _ in range(4)) for _ in range(4)]
        possible = any(
            sorted(tuple(row[place] for place in order) for row in other) == sorted(rows)
            for order in itertools.permutations(range(4), 2)
        )
        assert equal(table(*rows), table(*other), "subset") is possible


def test_columns_with_equal_values_are_matched_by_their_rows():
    gold = table((1, 2, "x"), (2, 1, "y"))
    assert equal(gold, table((2, 1, "x"), (1, 2, "y")), "permuted")
    assert not equal(table((1, 2), (2, 1), (1, 1)), table((1, 2), (1, 2), (2, 1)), "permuted")


def regular_graph(n: int, steps: tuple[int, ...]) -> Table:
    """Incidence of vertices and edges of a circulant graph: rows and columns look all alike."""
    edges = [(vertex, (vertex + step) % n) for vertex in range(n) for step in steps]
    return table(*[tuple(int(vertex in edge) for vertex in range(n)) for edge in edges])


def test_a_search_that_reaches_its_bound_says_timeout_and_never_guesses():
    n = 26
    comparison = compare(regular_graph(n, (1, 5)), regular_graph(n, (1, 3)), mode="permuted", search_cells=20_000)
    assert (comparison.equal, comparison.status) == (None, "timeout")


def test_the_bound_keeps_a_hopeless_search_short():
    started = time.perf_counter()
    compare(regular_graph(40, (1, 7, 11)), regular_graph(40, (1, 9, 13)), mode="permuted")
    assert time.perf_counter() - started < 20


def test_an_unknown_mode_is_refused_with_the_known_ones():
    with pytest.raises(SetupError, match="ordered, bag, set, permuted, subset"):
        check_mode("sorted")
