"""``envgym eval`` against an OpenAI-compatible endpoint: a small local server that plays as the expert does."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import envgym
from envgym import InfrastructureError, Message, SetupError
from envgym.cli import run
from envgym.evaluation.chat_endpoint import ChatEndpoint, with_stop_string
from envgym.evaluation.policy import Sampling

Answer = tuple[int, Any]
"""Status and JSON body."""


class Server(ThreadingHTTPServer):
    """Answers POST requests by a function, and keeps what it was asked."""

    def __init__(self, answer: Callable[[Mapping[str, Any]], Answer]) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        self.server.keys.append(self.headers.get("Authorization"))
        status, reply = (
            self.server.answer(body) if self.path == "/v1/chat/completions" else (404, {"error": "path"})
        )
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


@contextmanager
def serving(answer: Callable[[Mapping[str, Any]], Answer]) -> Iterator[Server]:
    server = Server(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def says(text: str, **choice: Any) -> Answer:
    return 200, {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop", **choice}]
    }


def experts_model(tasks: int) -> Callable[[Mapping[str, Any]], Answer]:
    """A model that knows the first tasks of search by heart, cut at stop strings as endpoints cut."""
    scripts: dict[str, list[str]] = {}
    env = envgym.make_env("search")
    for task in list(env.tasks("eval")[:tasks]):
        opening, _ = env.reset(seed=0, options={"task": task})
        scripts[opening[-1].text] = list(env.demonstrate(np.random.default_rng(0)))

    def answer(body: Mapping[str, Any]) -> Answer:
        prompt = next(message["content"] for message in body["messages"] if message["content"] in scripts)
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        text = scripts[prompt][turn]
        cut_at = min((text.find(stop) for stop in body.get("stop", []) if stop in text), default=len(text))
        return says(text[:cut_at])

    return answer


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets retries follow at once."""
    monkeypatch.setattr("envgym.evaluation.chat_endpoint.FIRST_WAIT_S", 0.001)


def test_model_behind_an_endpoint_plays_all_tasks_and_its_success_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "episodes.jsonl"
    with serving(experts_model(6)) as server:
        command = [
            "eval",
            "search",
            "--base-url",
            server.url,
            "--model",
            "expert",
            "--tasks",
            "6",
            "--out",
            str(out),
        ]
        assert run([*command, "--temperature", "0.5", "--max-tokens", "99"]) == 0

    assert all(line["success"] for line in lines_of(out))
    assert len(lines_of(out)) == 6
    assert server.asked[0]["stop"] == ["</search>", "</answer>"]
    assert (server.asked[0]["temperature"], server.asked[0]["max_tokens"]) == (0.5, 99)
    assert "success rate" in capsys.readouterr().out


def test_key_comes_from_the_named_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret")
    with serving(lambda body: says("hm")) as server:
        command = ["eval", "search", "--base-url", server.url, "--model", "m", "--tasks", "1"]
        assert run([*command, "--api-key-variable", "MY_KEY"]) == 0

    assert set(server.keys) == {"Bearer s3cret"}


def test_busy_endpoint_is_asked_again(impatient: None, tmp_path: Path) -> None:
    turns = iter([(503, {"error": "busy"}), (429, {"error": "slower"})])
    with serving(lambda body: next(turns, says("hm"))) as server:
        command = ["eval", "search", "--base-url", server.url, "--model", "m", "--tasks", "1"]
        assert run([*command, "--arg", "max_turns=1", "--out", str(tmp_path / "out")]) == 0

    assert len(server.asked) == 3
    assert lines_of(tmp_path / "out")[0]["error"] is None


def test_endpoint_that_stays_down_fails_the_episodes_and_scores_none_of_them_as_0(
    impatient: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda body: (500, {"error": "broken"})) as server:
        command = ["eval", "search", "--base-url", server.url, "--model", "m", "--tasks", "3"]
        assert run([*command, "--out", str(tmp_path / "out")]) == 1

    shown = capsys.readouterr().out
    assert [line["rewards"] for line in lines_of(tmp_path / "out")] == [[], [], []]
    assert "nan" in shown
    assert "the first failure: InfrastructureError: " in shown


def test_episodes_that_failed_do_not_enter_the_averages(
    impatient: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play = experts_model(4)
    broken = envgym.make_env("search").tasks("eval")[1].data["question"]

    def answer(body: Mapping[str, Any]) -> Answer:
        return (500, {}) if any(broken in message["content"] for message in body["messages"]) else play(body)

    with serving(answer) as server:
        assert run(["eval", "search", "--base-url", server.url, "--model", "m", "--tasks", "4"]) == 0

    rows = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:] if "±" not in line)
    assert rows["mean return"] == "1.000"
    assert rows["failed"] == "1"


def test_model_that_the_endpoint_does_not_know_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(lambda body: (404, {"error": "no such model"})) as server:
        assert run(["eval", "search", "--base-url", server.url, "--model", "gpt-0", "--tasks", "2"]) == 2

    error = capsys.readouterr().err
    assert "refused the request for model 'gpt-0' with status 404" in error
    assert error.count("\n") == 1


def test_address_without_a_scheme_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "search", "--base-url", "localhost:8000", "--model", "m"]) == 2

    assert "must begin with http:// or https://" in capsys.readouterr().err


def ask(answer: Answer, **options: Any) -> str:
    env = envgym.make_env("search")
    with serving(lambda body: answer) as server:
        endpoint = ChatEndpoint(server.url, "m", sampling=Sampling(timeout_s=5.0), **options)
        try:
            return endpoint(env, 0)([Message(role="user", content="?")])
        finally:
            endpoint.close()


def test_stop_string_that_the_endpoint_names_is_put_back() -> None:
    assert ask(says("<answer>Mirel", stop_reason="</answer>")) == "<answer>Mirel</answer>"


def test_stop_string_is_put_back_where_a_tag_was_left_open() -> None:
    assert ask(says("<search>Arvel")) == "<search>Arvel</search>"


def test_answer_that_ended_by_length_is_left_as_it_is() -> None:
    assert ask(says("<search>Arvel and then", finish_reason="length")) == "<search>Arvel and then"


def test_answer_without_content_is_an_empty_action() -> None:
    assert ask((200, {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]})) == ""


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{}]}, ["choices"], "text", {"choices": [3]}])
def test_answer_of_another_form_is_the_endpoints_fault(body: Any) -> None:
    with pytest.raises(InfrastructureError, match="not a chat completion"):
        ask((200, body))


def test_endpoint_that_does_not_listen_is_given_up_after_its_tries() -> None:
    waits: list[float] = []
    endpoint = ChatEndpoint("http://127.0.0.1:9", "m", attempts=3, wait=waits.append)

    with pytest.raises(InfrastructureError, match="gave no answer in 3 tries, at last ConnectError"):
        endpoint(envgym.make_env("search"), 0)([Message(role="user", content="?")])

    assert len(waits) == 2
    assert waits[0] < waits[1] * 2


def test_refused_request_is_wrong_input() -> None:
    with pytest.raises(SetupError, match="with status 401"):
        ask((401, {"error": "key"}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a>1</a> <b>2", "<a>1</a> <b>2</b>"),
        ("<a>1 <b>2", "<a>1 <b>2</b>"),
        ("<a>1</a>", "<a>1</a>"),
        ("</a> <a>1", "</a> <a>1</a>"),
        ("", ""),
    ],
)
def test_closer_of_the_tag_left_open_last_is_the_one_put_back(text: str, expected: str) -> None:
    assert with_stop_string(text, None, ["</a>", "</b>"]) == expected
