import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envgym.retrieval.corpus import Document
from envgym.retrieval.wire import encode_answer, encode_request, read_documents

ARVEL = Document(id="7", title="Arvel", text="A guild.")
CONTENTS = '"Arvel"\nA guild.'


@pytest.mark.parametrize(
    "hit",
    [
        {"document": {"id": "7", "contents": CONTENTS}, "score": 1.5},
        {"document": {"id": 7, "title": "Arvel", "text": "A guild."}, "score": 1.5},
        {"document": {"id": "7", "contents": CONTENTS}},
        {"id": "7", "contents": CONTENTS},
        {"_id": "7", "title": "Arvel", "text": "A guild."},
        {"id": "7", "title": "Arvel", "text": "A guild.", "contents": CONTENTS, "score": 1.5},
    ],
)
def test_reads_documents_wrapped_or_bare(hit: dict[str, Any]) -> None:
    for answer in ({"result": [[hit]]}, {"result": [hit]}, {"results": [hit]}, [[hit]], [hit]):
        assert read_documents(answer, 3) == (ARVEL,)


def test_reads_strings_which_have_no_id() -> None:
    for hit in (CONTENTS, {"document": CONTENTS, "score": 1.0}, {"contents": CONTENTS}):
        assert read_documents({"result": [[hit]]}, 3) == (Document(id="", title="Arvel", text="A guild."),)
    assert read_documents({"result": [["just text"]]}, 3) == (Document(id="", title="", text="just text"),)


@pytest.mark.parametrize(
    "placeholder",
    [
        -1,
        None,
        "",
        {"document": -1, "score": 0.0},
        {"document": None, "score": 0.0},
        {"id": -1, "contents": "last of the corpus"},
        {"document": {"id": "-1", "contents": "last of the corpus"}},
        {"document": {"id": "9", "contents": "last of the corpus"}, "score": -3.4028234663852886e38},
        {"document": {"id": "9", "contents": "last of the corpus"}, "score": 3.4028234663852886e38},
        {"document": {"id": "9", "contents": "last of the corpus"}, "score": float("nan")},
    ],
)
def test_placeholders_of_short_lists_are_left_out(placeholder: object) -> None:
    found = {"document": {"id": "7", "contents": CONTENTS}, "score": 1.5}
    assert read_documents({"result": [[found, placeholder, placeholder]]}, 3) == (ARVEL,)


def test_gives_at_most_k_and_fewer_where_there_are_fewer() -> None:
    hits = [{"id": str(number), "title": "", "text": "t"} for number in range(5)]
    assert [document.id for document in read_documents({"result": [hits]}, 3)] == ["0", "1", "2"]
    assert read_documents({"result": [hits[:1]]}, 3) == (Document(id="0", title="", text="t"),)
    assert read_documents({"result": []}, 3) == read_documents({"result": [[]]}, 3) == ()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (7, "the results are int"),
        ({"hits": []}, "none of the keys"),
        ({"result": {"a": 1}}, "the results are dict"),
        ({"result": [[], []]}, "2 lists of results for one query"),
        ({"result": [[3.5]]}, "a document is float"),
        ({"result": [[{"id": "7", "body": "x"}]]}, "neither contents nor text, only body, id"),
        ({"result": [[{"contents": ["x"]}]]}, "contents of a document is list"),
    ],
)
def test_another_shape_is_refused_with_the_reason(answer: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_documents(answer, 3)


def test_asks_in_both_dialects() -> None:
    assert json.loads(encode_request("queries", "x", 3)) == {"queries": ["x"], "topk": 3, "return_scores": True}
    assert json.loads(encode_request("query", "x", 3)) == {"query": "x", "topk": 3, "return_scores": True}


def test_half_a_surrogate_pair_can_be_sent() -> None:
    assert json.loads(encode_request("query", "a\ud800b", 3))["query"] == "a?b"


def test_a_long_query_is_cut() -> None:
    assert json.loads(encode_request("query", "a" * 1_000_000, 3))["query"] == "a" * 4_000


@pytest.mark.parametrize("return_scores", [True, False])
def test_what_our_server_answers_reads_back(return_scores: bool) -> None:
    answer = encode_answer([[(ARVEL, 1.5)]], return_scores=return_scores)
    assert read_documents(json.loads(json.dumps(answer)), 3) == (ARVEL,)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["result", "document", "id", "contents", "title", "text", "score"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_answer_is_read_or_refused(answer: object) -> None:
    try:
        documents = read_documents(answer, 3)
    except ValueError:
        return
    assert len(documents) <= 3
    assert all(isinstance(document, Document) for document in documents)
