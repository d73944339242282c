import subprocess
import sys
from collections.abc import Sequence

import pytest

from envgym.retrieval.bm25 import Bm25Retriever, words
from envgym.retrieval.corpus import Document


def retriever(*texts: str) -> Bm25Retriever:
    return Bm25Retriever(tuple(Document(id=str(n), title="", text=text) for n, text in enumerate(texts)))


def ids(documents: Sequence[Document]) -> list[str]:
    return [document.id for document in documents]


def test_documents_come_best_first():
    index = retriever("a river and a town", "a river, a river, a river", "a mountain")
    assert ids(index.search("river", 3)) == ["1", "0"]
    assert ids(index.search("town river", 1)) == ["0"]


def test_a_document_without_a_word_of_the_query_is_not_returned():
    index = retriever("river", "town")
    assert ids(index.search("river", 5)) == ["0"]
    assert index.search("mountain", 5) == ()
    assert index.search("", 5) == ()
    assert index.search("?! ...", 5) == ()


def test_equal_scores_keep_the_order_of_the_corpus():
    index = retriever(*["the same text"] * 50, "other")
    assert ids(index.search("same", 7)) == [str(number) for number in range(7)]


def test_more_documents_may_be_asked_for_than_there_are():
    assert ids(retriever("river", "river").search("river", 100)) == ["0", "1"]


def test_titles_are_searched_too():
    index = Bm25Retriever((Document(id="0", title="Arvel", text="A guild."), Document(id="1", title="", text="x")))
    assert ids(index.search("arvel", 2)) == ["0"]


def test_case_and_accents_do_not_matter():
    assert ids(retriever("Beyoncé sings", "x").search("BEYONCE", 1)) == ["0"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("東京は首都です。", ["東", "京", "は", "首", "都", "で", "す"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Ёлка и ПЕТЯ", ["елка", "и", "петя"]),
        ("snake_case x-ray 3.5", ["snake", "case", "x", "ray", "3", "5"]),
        ("ไทย", ["ไทย"]),
        ("", []),
    ],
)
def test_words_of_any_script_are_told_apart(text: str, found: list[str]):
    assert words(text) == found


def test_documents_without_any_word_can_be_indexed():
    assert retriever("!!", "...").search("a", 3) == ()
    assert ids(retriever("!!", "word").search("word", 3)) == ["1"]


def test_words_said_twice_in_a_query_count_once():
    index = retriever("river town", "river river town town")
    assert index.search_scored("river", 2) == index.search_scored("river RIVER river", 2)


def test_results_are_the_same_in_any_process_and_nothing_is_printed():
    program = (
        "from envgym.retrieval.bm25 import Bm25Retriever\n"
        "from envgym.worlds.search import make_world\n"
        "index = Bm25Retriever(make_world(0).documents)\n"
        "print([d.id for d in index.search('the town lies on the river', 20)])\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.count("\n") == 1
    assert runs[0].stderr == ""
