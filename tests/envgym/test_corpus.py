import json
import os
from pathlib import Path

import pytest

from envgym import SetupError
from envgym.retrieval.corpus import Document, load_corpus, split_contents


def write(folder: Path, *lines: object) -> str:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_the_first_line_of_contents_is_the_title_without_its_quotes(tmp_path: Path):
    path = write(
        tmp_path,
        {"id": "7", "contents": '"Arvel"\nArvel is a guild.\nIt is old.'},
        {"id": 8, "contents": "Plain title\nText."},
        {"contents": "One line is text."},
        {"id": "9", "contents": '"The "Best" of"\nText.'},
    )
    assert load_corpus(path) == (
        Document(id="7", title="Arvel", text="Arvel is a guild.\nIt is old."),
        Document(id="8", title="Plain title", text="Text."),
        Document(id="2", title="", text="One line is text."),
        Document(id="9", title='The "Best" of', text="Text."),
    )


def test_title_and_text_may_come_apart(tmp_path: Path):
    path = write(tmp_path, {"id": "1", "title": "Arvel", "text": "A guild."}, {"id": "2", "text": "Alone."})
    assert load_corpus(path) == (
        Document(id="1", title="Arvel", text="A guild."),
        Document(id="2", title="", text="Alone."),
    )


def test_a_lonely_quote_is_no_pair_of_quotes():
    assert split_contents('"\ntext')["title"] == '"'
    assert split_contents('""\ntext')["title"] == ""


def test_a_file_is_read_once_and_again_when_it_changed(tmp_path: Path):
    path = write(tmp_path, {"id": "1", "contents": "a"})
    first = load_corpus(path)
    assert load_corpus(os.path.relpath(path)) is first
    write(tmp_path, {"id": "1", "contents": "changed"})
    assert load_corpus(path)[0].text == "changed"


@pytest.mark.parametrize("line", [{"id": "1"}, {"contents": 3}, {"contents": None}, {"title": 1, "text": "x"}])
def test_a_line_without_contents_is_named(tmp_path: Path, line: object):
    path = write(tmp_path, {"id": "0", "contents": "x"}, line)
    with pytest.raises(SetupError, match=r'corpus\.jsonl, line 2: "contents" must be a string'):
        load_corpus(path)


def test_a_missing_and_an_empty_corpus_are_refused_with_what_to_give(tmp_path: Path):
    with pytest.raises(SetupError, match=r"corpus .*nowhere\.jsonl does not exist; give a JSON-lines file"):
        load_corpus(str(tmp_path / "nowhere.jsonl"))
    with pytest.raises(SetupError, match="holds no documents; give a JSON-lines file"):
        load_corpus(write(tmp_path))
