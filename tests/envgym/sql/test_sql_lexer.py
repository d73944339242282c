import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envgym.sql.layouts import split_statements
from envgym.sql.lexer import has_top_level_order, leaves_order_open, shuffle_rows, shuffle_ties, tokens


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t ORDER BY a",
        "select a from t order\n by a",
        "SELECT a FROM t ORDER /* x */ BY a LIMIT 3",
        "WITH x AS (SELECT 1) SELECT * FROM x ORDER BY 1",
        "SELECT a FROM t UNION SELECT b FROM u ORDER BY 1",
        "SELECT ')' FROM t ORDER BY a",
    ],
)
def test_a_top_level_order_is_found(sql):
    assert has_top_level_order(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t",
        "SELECT * FROM (SELECT a FROM t ORDER BY a)",
        "SELECT rank() OVER (ORDER BY a) FROM t",
        "SELECT group_concat(a ORDER BY a) FROM t",
        "SELECT 'ORDER BY' FROM t",
        'SELECT a AS "order by" FROM t',
        "SELECT [order], `by` FROM t",
        "SELECT a FROM t -- ORDER BY a",
        "SELECT a FROM t /* ORDER BY a */",
        "SELECT border, bye FROM t",
    ],
)
def test_an_order_elsewhere_is_not_the_statements(sql):
    assert not has_top_level_order(sql)


@pytest.mark.parametrize(
    ("sql", "shuffled"),
    [
        ("SELECT a FROM t ORDER BY b;", "SELECT a FROM t ORDER BY b , random();"),
        ("SELECT a FROM t LIMIT 2", "SELECT a FROM t ORDER BY random() LIMIT 2"),
        (
            "SELECT a FROM (SELECT a FROM t ORDER BY b DESC LIMIT 1) WHERE 1",
            "SELECT a FROM (SELECT a FROM t ORDER BY b DESC , random() LIMIT 1) WHERE 1",
        ),
        (
            "SELECT rank() OVER (ORDER BY a) FROM t ORDER BY b",
            "SELECT rank() OVER (ORDER BY a) FROM t ORDER BY b , random()",
        ),
        ("SELECT count(*) FROM t WHERE a IN (1, 2)", "SELECT count(*) FROM t WHERE a IN (1, 2)"),
    ],
)
def test_ties_are_shuffled_where_an_order_is_left_open(sql, shuffled):
    assert shuffle_ties(sql) == shuffled


def test_rows_are_shuffled_of_the_tables_that_a_statement_names():
    shuffled = shuffle_rows('SELECT a FROM "Order Details", T', ["order details", "t", "u"])
    assert shuffled == (
        'WITH "order details" AS (SELECT * FROM main."order details" ORDER BY random() LIMIT -1), '
        '"t" AS (SELECT * FROM main."t" ORDER BY random() LIMIT -1) SELECT a FROM "Order Details", T'
    )


def test_statements_are_split_at_semicolons_outside_of_strings():
    assert split_statements("SELECT ';' -- ;\n; SELECT 2; ;") == ("SELECT ';' -- ;", "SELECT 2")


@given(st.text(alphabet="abORDERBY'\"`[]()-/*; \n,1", max_size=200))
def test_any_text_has_tokens_in_order(text):
    ends = [0]
    for token in tokens(text):
        assert token.start >= ends[-1] and token.end > token.start and token.depth >= 0
        ends.append(token.end)
    has_top_level_order(text), leaves_order_open(text)
    shuffle_rows(shuffle_ties(text), ["a", "b"])


@pytest.mark.parametrize("piece", ["(", "'", '"', "/*", "ORDER BY ", "[", "--", "''", "a" * 7 + " "])
def test_tokens_take_linear_time(piece):
    def best(size: int) -> float:
        text = piece * (size // len(piece))
        times = []
        for _ in range(3):
            started = time.process_time()
            shuffle_ties(text)
            times.append(time.process_time() - started)
        return min(times)

    assert best(20_000) < 40 * max(best(2_000), 1e-4)
