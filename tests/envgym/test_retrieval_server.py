import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envgym import InfrastructureError, SetupError, make_env
from envgym.retrieval.http import HttpRetriever, HttpSettings
from envgym.retrieval.server import serve_retriever
from envgym.worlds.search import make_world

pytest.importorskip("fastapi")
START = (
    "from envgym.retrieval.server import serve_retriever\n"
    "serve_retriever(port=0, announce=lambda line: print(line, flush=True))"
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server that searches the embedded world."""
    process = subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("2400 documents at http://127.0.0.1:")
    yield line.split()[-1]
    process.send_signal(signal.SIGINT)
    assert process.wait(10) in (0, -signal.SIGINT)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "NO_PROXY", "127.0.0.1")


def post(url: str, body: object) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


@pytest.mark.parametrize("dialect", ["queries", "query", "auto"])
def test_answers_both_dialects(server: str, dialect: str) -> None:
    document = make_world().documents[0]
    searcher = HttpRetriever(HttpSettings(url=server, dialect=dialect))
    assert searcher.search(document.title, 5)[0] == document


def test_answers_several_queries_with_and_without_scores(server: str) -> None:
    first, second = make_world().documents[:2]
    answer = post(server, {"queries": [first.title, second.title], "topk": 1})
    assert [hits[0]["document"]["id"] for hits in answer["result"]] == [first.id, second.id]
    assert answer["result"][0][0]["score"] > 0
    bare = post(server, {"queries": [first.title], "topk": 1, "return_scores": False})
    assert bare["result"][0][0]["contents"] == f'"{first.title}"\n{first.text}'


def test_health_says_how_many_documents_there_are(server: str) -> None:
    with urllib.request.urlopen(server.replace("/retrieve", "/health"), timeout=10) as answer:
        assert json.load(answer) == {"documents": 2400}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": "a", "queries": ["a"]},
        {"query": "a", "topk": 0},
        {"query": "a" * 20_000},
        {"queries": "a"},
        [],
    ],
)
def test_a_request_that_makes_no_sense_is_refused(server: str, body: object) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(server, body)
    assert caught.value.code == 422


def test_the_search_env_plays_the_embedded_world_through_the_server(server: str) -> None:
    here, there = make_env("search"), make_env("search", retriever="http", retriever_options={"url": server})
    for seed in range(3):
        assert here.reset(seed=seed) == there.reset(seed=seed)
        for action in here.demonstrate(here.np_random):
            assert here.step(action) == there.step(action)


def test_a_taken_port_and_a_corpus_that_is_not_there_are_refused_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=f"cannot listen on 127\\.0\\.0\\.1:{port}"):
            serve_retriever(port=port)
    with pytest.raises(SetupError, match="does not exist"):
        serve_retriever(corpus=str(tmp_path / "none.jsonl"), port=0)
    with pytest.raises(SetupError, match="cannot search with retriever 'http'"):
        serve_retriever(retriever="http", port=0)


def test_an_outage_fails_the_rollout_and_shows_the_model_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/retrieve"
    env = make_env("search", retriever="http", retriever_options={"url": url, "retries": 0})
    messages, info = env.reset(seed=1)
    assert url not in repr((messages, info, env))
    with pytest.raises(InfrastructureError, match="the retriever at"):
        env.step("<search>anything</search>")


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "try: import envgym.retrieval.server\n"
        "except ValueError as error: print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "the search server needs more packages" in printed
    assert "pip install 'envgym[serve]'" in printed
