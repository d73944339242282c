"""A model behind an OpenAI-compatible endpoint (``/chat/completions``), as a policy."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import httpx

from envgym.env import TextEnv
from envgym.errors import InfrastructureError, SetupError
from envgym.evaluation.policy import Actor, Sampling
from envgym.messages import Message
from envgym.wrappers import plain_message

MAX_STOP_STRINGS = 4
"""The interface takes no more; further ones are left to the env, which reads the first complete tag anyhow."""
FIRST_WAIT_S = 1.0
MAX_WAIT_S = 30.0


class ChatEndpoint:
    """Asks an endpoint for one action after another. One object serves any number of threads."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        sampling: Sampling | None = None,
        attempts: int = 4,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Set up the connection; nothing is sent yet.

        Args:
            base_url: what stands before ``/chat/completions``, for example ``http://127.0.0.1:8000/v1``.
            model: the model's name there.
            api_key: sent as a bearer token.
            sampling: temperature, length and patience.
            attempts: tries for one answer, where the endpoint is busy or fails.
            wait: sleeps between two tries.
        """
        if not base_url.startswith(("http://", "https://")):
            raise SetupError(f"--base-url is {base_url!r}; it must begin with http:// or https://")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._sampling = sampling or Sampling()
        self._client = httpx.Client(headers=headers, timeout=self._sampling.timeout_s)
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._model = model
        self._attempts = attempts
        self._wait = wait

    def __call__(self, env: TextEnv, seed: int) -> Actor:
        """The actor of one episode."""
        stops = env.stop_strings

        def act(messages: Sequence[Message]) -> str:
            text, finish_reason, stop = read_answer(self._post(self._body(messages, stops, seed)))
            return with_stop_string(text, stop, stops) if finish_reason == "stop" else text

        return act

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _body(self, messages: Sequence[Message], stops: Sequence[str], seed: int) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [plain_message(message) for message in messages],
            "temperature": self._sampling.temperature,
            "max_tokens": self._sampling.max_tokens,
            "seed": seed,
        }
        return {**body, "stop": list(stops[:MAX_STOP_STRINGS])} if stops else body

    def _post(self, body: Mapping[str, Any]) -> httpx.Response:
        """Post, and try again where the endpoint is busy or out of order."""
        trouble = ""
        for attempt in range(self._attempts):
            if attempt:
                self._wait(min(MAX_WAIT_S, FIRST_WAIT_S * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0))
            try:
                response = self._client.post(self._url, json=body)
            except httpx.TransportError as error:
                trouble = f"{type(error).__name__}: {error}"
                continue
            if response.status_code < 400:
                return response
            trouble = f"status {response.status_code}: {response.text[:200]}"
            if response.status_code not in (408, 409, 425, 429) and response.status_code < 500:
                raise SetupError(f"{self._url} refused the request for model {self._model!r} with {trouble}")
        raise InfrastructureError(f"{self._url} gave no answer in {self._attempts} tries, at last {trouble}")


def read_answer(response: httpx.Response) -> tuple[str, str | None, str | None]:
    """The text of an answer, why it ended, and the stop string that ended it where the endpoint says so.

    Raises:
        InfrastructureError: where it is not a chat completion.
    """
    try:
        choice = cast("dict[str, Any]", response.json()["choices"][0])
        text = cast("str | None", choice["message"].get("content")) or ""
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        answered = f"{response.url} answered {response.text[:200]!r}"
        raise InfrastructureError(f"{answered}, which is not a chat completion") from error
    stop = choice.get("stop_reason")
    return text, choice.get("finish_reason"), stop if isinstance(stop, str) else None


def with_stop_string(text: str, stop: str | None, stops: Sequence[str]) -> str:
    """Put back the stop string that the endpoint cut off.

    Some endpoints name it. From others it follows that a tag was left open whose closer is a stop string.

        >>> with_stop_string("I look. <search>Arvel", None, ["</search>", "</answer>"])
        'I look. <search>Arvel</search>'
        >>> with_stop_string("no tag", None, ["</search>"])
        'no tag'
    """
    if any(text.endswith(known) for known in stops):
        return text
    if stop is not None:
        return text + stop
    left_open = {
        closer: text.rfind(f"<{closer[2:]}")
        for closer in stops
        if closer.startswith("</") and text.rfind(f"<{closer[2:]}") > text.rfind(closer)
    }
    return text + max(left_open, key=left_open.__getitem__) if left_open else text
