import json
import multiprocessing
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from envgym import InfrastructureError, SetupError
from envgym.retrieval.corpus import Document
from envgym.retrieval.http import HttpRetriever, HttpSettings

pytest.importorskip("httpx")
ARVEL = Document(id="7", title="Arvel", text="A guild.")
FOUND = {"result": [[{"document": {"id": "7", "contents": '"Arvel"\nA guild.'}, "score": 1.5}]]}
Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


class Server(ThreadingHTTPServer):
    """Answers every POST as a test says, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/retrieve"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        self.server.answer(self, body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def send(handler: BaseHTTPRequestHandler, status: int, content: object) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], Server]]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    servers: list[Server] = []

    def start(answer: Answer) -> Server:
        servers.append(Server(answer))
        threading.Thread(target=servers[-1].serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def retriever(url: str, **settings: Any) -> HttpRetriever:
    return HttpRetriever(HttpSettings(url=url, **settings))


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_speaks_the_dialect_with_a_list(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: send(handler, 200 if "queries" in body else 422, FOUND))
    assert retriever(server.url).search("who?", 3) == (ARVEL,)
    assert server.asked == [{"queries": ["who?"], "topk": 3, "return_scores": True}]


@pytest.mark.parametrize("refusal", [422, 400, 500])
def test_finds_out_that_a_server_speaks_the_dialect_with_a_string(
    serve: Callable[[Answer], Server], refusal: int
) -> None:
    server = serve(lambda handler, body: send(handler, 200 if "query" in body else refusal, FOUND))
    searcher = retriever(server.url, retries=0)
    assert searcher.search("who?", 3) == (ARVEL,)
    assert searcher.search("what?", 3) == (ARVEL,)
    assert [next(iter(asked)) for asked in server.asked] == ["queries", "query", "query"]


def test_a_dialect_that_was_chosen_is_the_only_one_tried(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: send(handler, 422, {}))
    with pytest.raises(InfrastructureError, match="no usable answer: HTTP 422"):
        retriever(server.url, dialect="query").search("who?", 3)
    assert [next(iter(asked)) for asked in server.asked] == ["query"]


def test_a_passing_failure_is_retried(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: send(handler, 200 if len(server.asked) == 3 else 503, FOUND))
    assert retriever(server.url, retries=2).search("who?", 3) == (ARVEL,)
    assert len(server.asked) == 3


def test_retries_are_bounded(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: send(handler, 503, {}))
    with pytest.raises(InfrastructureError, match="failed 3 times, last: HTTP 503"):
        retriever(server.url, retries=2).search("who?", 3)
    assert len(server.asked) == 3


def test_a_server_that_is_not_there_fails_at_once_and_the_message_names_it() -> None:
    url = f"http://someone:secret@127.0.0.1:{closed_port()}/retrieve?key=secret"
    with pytest.raises(
        InfrastructureError, match=r"the retriever at http://127\.0\.0\.1:\d+/retrieve failed"
    ) as caught:
        retriever(url, retries=1).search("who?", 3)
    assert "secret" not in str(caught.value)


def test_an_answer_that_never_starts_ends_at_the_deadline(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: time.sleep(3))
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match=r"did not answer within 0\.5 s"):
        retriever(server.url, deadline_s=0.5).search("who?", 3)
    assert time.monotonic() - started < 2.5
    assert len(server.asked) == 1


def test_an_answer_that_trickles_in_ends_at_the_deadline(serve: Callable[[Answer], Server]) -> None:
    def trickle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(30):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return
            time.sleep(0.1)

    server = serve(trickle)
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match=r"did not answer within 0\.5 s"):
        retriever(server.url, deadline_s=0.5).search("who?", 3)
    assert time.monotonic() - started < 2.5


@pytest.mark.parametrize("content", [b"<html>", b'{"result": 3}', b"[" * 100_000, b'{"hits": []}', b"\xff\xfe"])
def test_an_answer_of_another_shape_is_the_infrastructures_fault(
    serve: Callable[[Answer], Server], content: bytes
) -> None:
    server = serve(lambda handler, body: send(handler, 200, content))
    with pytest.raises(InfrastructureError, match="no usable answer"):
        retriever(server.url).search("who?", 3)


def test_an_endless_answer_is_cut_off(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: send(handler, 200, b" " * 9_000_000))
    with pytest.raises(InfrastructureError, match="longer than 8000000 bytes"):
        retriever(server.url).search("who?", 3)


def test_a_server_that_keeps_failing_is_left_alone_for_a_while(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: send(handler, 503, {}))
    searcher = retriever(server.url, retries=0)
    for _ in range(5):
        with pytest.raises(InfrastructureError):
            searcher.search("who?", 3)
    started = time.monotonic()
    for _ in range(20):
        with pytest.raises(InfrastructureError, match="kept failing; it is asked again in"):
            searcher.search("who?", 3)
    assert time.monotonic() - started < 2.0
    assert len(server.asked) == 5


def test_envs_of_one_process_share_what_is_known_about_a_server(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: send(handler, 503, {}))
    for _ in range(5):
        with pytest.raises(InfrastructureError):
            retriever(server.url, retries=0).search("who?", 3)
    with pytest.raises(InfrastructureError, match="kept failing"):
        retriever(server.url, retries=0).search("who?", 3)


def test_requests_that_are_refused_do_not_close_the_way_for_others(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: send(handler, 413, {}))
    for _ in range(7):
        with pytest.raises(InfrastructureError, match="HTTP 413"):
            retriever(server.url).search("who?", 3)
    assert len(server.asked) == 7


def test_many_threads_may_search_at_once(serve: Callable[[Answer], Server]) -> None:
    together = threading.Barrier(8, timeout=10)

    def wait_for_others(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        together.wait()  # breaks, and with it the answer, unless 8 requests are there at once
        send(handler, 200, FOUND)

    searcher = retriever(serve(wait_for_others).url, dialect="queries", retries=0)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda number: searcher.search(f"q{number}", 3), range(32))) == {(ARVEL,)}


def _search_in_child(url: str, sender: Any) -> None:
    sender.send(retriever(url).search("who?", 3))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_searches_too(serve: Callable[[Answer], Server]) -> None:
    server = serve(lambda handler, body: send(handler, 200, FOUND))
    assert retriever(server.url).search("who?", 3) == (ARVEL,)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_search_in_child, args=(server.url, sender))
    child.start()
    assert receiver.poll(10)
    assert receiver.recv() == (ARVEL,)
    child.join(5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "127.0.0.1:8000"}, "must look like http://"),
        ({"url": "ftp://host/x"}, "must look like http://"),
        ({"url": "http://h/x", "dialect": "both"}, "dialect is 'both'"),
        ({"url": "http://h/x", "deadline_s": 0}, "deadline_s is 0"),
        ({"url": "http://h/x", "retries": 99}, "retries is 99"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        HttpSettings(**settings)


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "try: import envgym.retrieval.http\n"
        "except ValueError as error: print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "retriever 'http' needs more packages" in printed
    assert "pip install 'envgym[http]'" in printed
