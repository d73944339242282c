"""The ``http`` retriever: a search server somewhere else, asked within a deadline.

Every call ends within ``deadline_s``, whatever the server does: connections are retried a bounded number of times
with jitter, an answer that trickles in is cut off, and a server that keeps failing is not asked for a while (see
``CircuitBreaker``). An outage raises ``InfrastructureError``, which fails the rollout; the model never sees it.

Needs the extra ``http``. Calls may come from any thread; they run on one event loop per process.
"""

import asyncio
import json
import os
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from envgym.errors import InfrastructureError, SetupError
from envgym.extra import missing_extra
from envgym.once import Once
from envgym.retrieval.circuit_breaker import CircuitBreaker
from envgym.retrieval.corpus import Document
from envgym.retrieval.wire import DIALECTS, Dialect, encode_request, read_documents

try:
    import httpx
except ImportError as error:
    raise missing_extra("http", "retriever 'http'", error) from error

MAX_ANSWER_BYTES = 8_000_000
MAX_DEADLINE_S = 25.0  # the step of an env that searches ends within 30 s
FIRST_PAUSE_S = 0.2  # before the first retry; doubled before each further one, and drawn from (0.5, 1] of that
CONNECT_SHARE = 1 / 3  # of the deadline: an unreachable host leaves time for another try
SPARE_S = 2.0  # for the event loop to notice its deadline
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # a later try may succeed
_REFUSALS = frozenset({400, 404, 405, 415, 422})  # what servers answer to fields that they do not know


class _Outage(Exception):
    """One try failed; another may succeed."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


class _Refusal(Exception):
    """The server is up and does not take the request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpSettings:
    """How a server is asked.

    Raises:
        SetupError: if a value cannot be used.
    """

    url: str
    """The whole address, for example ``http://127.0.0.1:8000/retrieve``."""
    dialect: Dialect | str = "auto"
    """``queries`` sends a list, ``query`` a string; ``auto`` tries the first and remembers what was understood."""
    deadline_s: float = 10.0
    """For one search, retries and all."""
    retries: int = 2
    """After a failed connection or a status such as 503; a slow answer is not asked for again."""

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise SetupError(f"url is {self.url!r}; it must look like http://127.0.0.1:8000/retrieve")
        if self.dialect not in ("auto", *DIALECTS):
            raise SetupError(f"dialect is {self.dialect!r}; it must be one of: auto, {', '.join(DIALECTS)}")
        if not 0 < self.deadline_s <= MAX_DEADLINE_S:
            raise SetupError(f"deadline_s is {self.deadline_s}; it must be above 0 and at most {MAX_DEADLINE_S:g}")
        if not 0 <= self.retries <= 10:
            raise SetupError(f"retries is {self.retries}; it must be between 0 and 10")

    @property
    def shown_url(self) -> str:
        """The address without user name, password and parameters, for error messages."""
        address = urlsplit(self.url)
        return f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"


class HttpRetriever:
    """Searches through a server that speaks one of the two public dialects (see ``envgym.retrieval.wire``)."""

    def __init__(self, settings: HttpSettings) -> None:
        """Nothing is sent yet."""
        self.settings = settings

    def search(self, query: str, k: int) -> tuple[Document, ...]:
        """At most ``k`` documents, the best first. Servers may give fewer.

        Raises:
            InfrastructureError: if there is no usable answer within the deadline.
        """
        connection = _connection((os.getpid(), self.settings))
        future = asyncio.run_coroutine_threadsafe(connection.search(query, k), _event_loop(os.getpid()))
        try:
            return future.result(self.settings.deadline_s + SPARE_S)
        except TimeoutError:
            future.cancel()
            raise InfrastructureError(f"the retriever's event loop is stuck ({self.settings.shown_url})") from None


def _start_event_loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked child does not inherit its parent's thread and starts its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="envgym-retrieval", daemon=True).start()
    return loop


@dataclass(slots=True)
class _Connection:
    """The connections of one process to one server, with what was learnt about it. Lives on the event loop."""

    settings: HttpSettings
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    client: httpx.AsyncClient | None = None
    understood: Dialect | None = None

    async def search(self, query: str, k: int) -> tuple[Document, ...]:
        name = f"the retriever at {self.settings.shown_url}"
        if not self.breaker.admit():
            raise InfrastructureError(f"{name} kept failing; it is asked again in {self.breaker.wait_s:.0f} s")
        try:
            async with asyncio.timeout(self.settings.deadline_s):
                documents = await self._ask_in_a_dialect(query, k)
        except TimeoutError:
            self.breaker.record(ok=False)
            raise InfrastructureError(f"{name} did not answer within {self.settings.deadline_s:g} s") from None
        except _Outage as error:
            self.breaker.record(ok=False)
            raise InfrastructureError(f"{name} failed {1 + self.settings.retries} times, last: {error}") from error
        except (_Refusal, ValueError) as error:
            self.breaker.record(ok=True)  # it is up, so other searches may well succeed
            raise InfrastructureError(f"{name} gave no usable answer: {error}") from error
        self.breaker.record(ok=True)
        return documents

    async def _ask_in_a_dialect(self, query: str, k: int) -> tuple[Document, ...]:
        dialects = self._dialects()
        for dialect in dialects:
            try:
                answer = await self._ask(encode_request(dialect, query, k))
            except (_Refusal, _Outage) as error:
                not_understood = (
                    isinstance(error, _Refusal) or error.status == 500
                )  # a missing key, in plain servers
                if dialect == dialects[-1] or not not_understood:
                    raise
                continue
            documents = read_documents(answer, k)
            self.understood = dialect
            return documents
        raise AssertionError("unreachable: there is at least one dialect")

    def _dialects(self) -> Sequence[Dialect]:
        if self.settings.dialect == "auto":
            return (self.understood,) if self.understood else DIALECTS
        return [dialect for dialect in DIALECTS if dialect == self.settings.dialect]

    async def _ask(self, body: bytes) -> object:
        for attempt in range(self.settings.retries + 1):
            try:
                return await self._ask_once(body)
            except _Outage:
                if attempt == self.settings.retries:
                    raise
                await asyncio.sleep(FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1.0))
        raise AssertionError("unreachable: there is at least one attempt")

    async def _ask_once(self, body: bytes) -> object:
        try:
            async with self._client().stream("POST", self.settings.url, content=body) as response:
                _check_status(response.status_code)
                return await _read_json(response)
        except httpx.TransportError as error:
            raise _Outage(f"{type(error).__name__}: {error}") from error
        except httpx.RequestError as error:  # too many redirects, a body that cannot be decoded
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def _client(self) -> httpx.AsyncClient:
        if self.client is None:
            self.client = httpx.AsyncClient(
                headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
                timeout=httpx.Timeout(None, connect=self.settings.deadline_s * CONNECT_SHARE),
                limits=httpx.Limits(max_connections=64),
                follow_redirects=True,
            )
        return self.client


def _connect(key: tuple[int, HttpSettings]) -> _Connection:
    return _Connection(key[1])


_event_loop = Once(_start_event_loop, size=2)
_connection = Once(_connect, size=64)


def _check_status(status: int) -> None:
    if status in _PASSING:
        raise _Outage(f"HTTP {status}", status)
    if status in _REFUSALS:
        raise _Refusal(f"HTTP {status}")
    if status != 200:
        raise ValueError(f"HTTP {status}")


async def _read_json(response: httpx.Response) -> object:
    answer = bytearray()
    async for chunk in response.aiter_bytes():
        answer += chunk
        if len(answer) > MAX_ANSWER_BYTES:
            raise ValueError(f"it is longer than {MAX_ANSWER_BYTES} bytes")
    try:
        return json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({type(error).__name__})") from error
