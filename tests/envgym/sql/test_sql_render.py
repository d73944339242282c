from envgym.sql.render import render, show_cell
from envgym.sql.schema import describe_database
from envgym.sql.table import Failure, Table


def test_a_table_keeps_names_order_duplicates_and_null():
    shown = render(Table(columns=("name", "n", "n"), rows=(("b", 1, None), ("a", 2.5, 0), ("b", 1, None))))
    assert shown.splitlines() == [
        "name | n | n",
        "--- | --- | ---",
        "b | 1 | NULL",
        "a | 2.5 | 0",
        "b | 1 | NULL",
        "(3 rows)",
    ]


def test_what_was_cut_is_said():
    table = Table(columns=("a",), rows=((1,),), more_rows=True, hidden_columns=2, cut_cells=1)
    assert render(table).endswith(
        "(the first 1 row; more follow; 2 further columns not shown; 1 long value cut short)"
    )


def test_an_empty_result_shows_its_columns():
    assert render(Table(columns=("a", "b"), rows=())).splitlines() == ["a | b", "--- | ---", "(0 rows)"]


def test_a_cell_stays_on_its_line_and_in_its_column():
    assert show_cell("a\nb|c\td\x00\x1b[2J\u2028") == "a\\nb\\|c\\td\\x00\\x1b[2J\\x2028"
    assert show_cell(b"\x00\xff") == "x'00ff'"


def test_only_null_looks_like_null():
    assert (show_cell(None), show_cell("NULL"), show_cell("null"), show_cell("")) == (
        "NULL",
        "'NULL'",
        "'null'",
        "",
    )


def test_a_failure_is_one_line():
    assert render(Failure(kind="error", message='near "\n": syntax error')) == 'Error: near "\\n": syntax error'


def test_a_schema_shows_types_keys_links_and_samples(make_database):
    path = make_database(
        "s",
        """
        CREATE TABLE "Order Details" (id INTEGER PRIMARY KEY, "group" TEXT NOT NULL, note);
        CREATE TABLE part (a INT, b INT, order_id REFERENCES "Order Details", PRIMARY KEY (a, b),
            FOREIGN KEY (a, b) REFERENCES other (x, y));
        CREATE TABLE other (x INT, y INT, UNIQUE (x, y));
        CREATE VIEW seen AS SELECT note FROM "Order Details";
        INSERT INTO "Order Details" VALUES (1, 'it''s', NULL), (2, 'b', x'0102');
        """,
    )
    assert describe_database(path, 2) == (
        'CREATE TABLE "Order Details" (\n'
        "  id INTEGER PRIMARY KEY, -- e.g. 1, 2\n"
        "  \"group\" TEXT NOT NULL, -- e.g. 'it''s', 'b'\n"
        "  note -- e.g. a blob of 2 bytes\n)\n\n"
        "CREATE TABLE part (\n  a INT,\n  b INT,\n  order_id,\n  PRIMARY KEY (a, b),\n"
        '  FOREIGN KEY (order_id) REFERENCES "Order Details" (id),\n'
        "  FOREIGN KEY (a, b) REFERENCES other (x, y)\n)\n\n"
        "CREATE TABLE other (\n  x INT,\n  y INT\n)\n\n"
        "CREATE VIEW seen (\n  note -- e.g. a blob of 2 bytes\n)"
    )
    assert "e.g." not in describe_database(path)
