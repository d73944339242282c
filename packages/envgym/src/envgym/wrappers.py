"""Wrappers in Gymnasium's form: write transcripts, weigh the terms of a reward, keep observations short.

>>> from envgym import make_env
>>> env = ObservationBudget(make_env("search"), max_characters=2_000)
>>> env = ShapeReward(env, {"answer": 2.0})
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from envgym.env import Observation
from envgym.errors import SetupError
from envgym.messages import ImagePart, Message, Part, TextPart

Stepped = tuple[Observation, float, bool, bool, dict[str, Any]]
_Env = gymnasium.Env[Observation, str]


MIN_BUDGET = 100
BLOCK_ROOM = 80
"""Characters of a block that are worth showing, what is said about the cut included."""
_OPENER = re.compile(r"<([A-Za-z][A-Za-z0-9_-]*)>")
_CLOSER = re.compile(r"</([A-Za-z][A-Za-z0-9_-]*)>")


class _Wrapper(gymnasium.Wrapper[Observation, str, Observation, str], RecordConstructorArgs):
    """What the wrappers here share: messages stay messages, actions stay text."""


class RecordTranscript(_Wrapper):
    """Append one line of JSON per episode to a file.

    A line holds ``task_id``, ``seed``, ``messages`` (the assistant's among them), ``rewards`` and ``reward_terms``
    per action, ``return``, ``success`` and ``ended``, which is False where the episode was abandoned.
    """

    def __init__(self, env: _Env, path: str | Path) -> None:
        """Make sure that the file can be appended to.

        Raises:
            SetupError: if it cannot be written.
        """
        RecordConstructorArgs.__init__(self, path=str(path))
        gymnasium.Wrapper.__init__(self, env)
        self._path = Path(path)
        try:
            self._append("")
        except OSError as error:
            raise SetupError(f"cannot write transcripts: {error}") from error
        self._line: dict[str, Any] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; one that was abandoned is written as it is."""
        self._write(ended=False)
        observation, info = self.env.reset(seed=seed, options=options)
        self._line = {
            "task_id": info.get("task_id"),
            "seed": seed,
            "messages": [plain_message(message) for message in observation],
            "rewards": [],
            "reward_terms": [],
            "success": None,
        }
        return observation, info

    def step(self, action: str) -> Stepped:
        """Play one action and note what it led to."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        line = self._line
        if line is not None:
            line["messages"].append({"role": "assistant", "content": action})
            line["messages"].extend(plain_message(message) for message in observation)
            line["rewards"].append(float(reward))
            line["reward_terms"].append(info.get("reward_terms", {}))
            line["success"] = info.get("success")
        if terminated or truncated:
            self._write(ended=True)
        return observation, float(reward), terminated, truncated, info

    def close(self) -> None:
        """Write an episode that was not finished, and close the env."""
        self._write(ended=False)
        super().close()

    def _write(self, *, ended: bool) -> None:
        if self._line is None:
            return
        line = {**self._line, "return": sum(self._line["rewards"]), "ended": ended}
        self._append(json.dumps(line, ensure_ascii=False) + "\n")
        self._line = None

    def _append(self, text: str) -> None:
        with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)


class ShapeReward(_Wrapper):
    """Count some terms of the reward more, less, or not at all.

    A term of weight ``w`` counts ``w`` times instead of once; terms that are not named count once. The env's
    ``reward_range`` does not hold any more.
    """

    def __init__(self, env: _Env, weights: Mapping[str, float]) -> None:
        """Set the weight of each named term. A name that no episode reports is warned about once."""
        RecordConstructorArgs.__init__(self, weights=dict(weights))
        gymnasium.Wrapper.__init__(self, env)
        self._weights = dict(weights)
        self._unseen = set(weights)

    def step(self, action: str) -> Stepped:
        """Play one action, and weigh what it earned."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        terms: Mapping[str, float] = info.get("reward_terms", {})
        self._unseen -= terms.keys()
        if (terminated or truncated) and self._unseen:
            names = ", ".join(sorted(self._unseen))
            gymnasium.logger.warn(f"the first episode had no reward term {names}; its last terms: {sorted(terms)}")
            self._unseen.clear()
        return observation, shaped(float(reward), terms, self._weights), terminated, truncated, info


def shaped(reward: float, terms: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The reward with each weighted term counted ``weight`` times instead of once.

    >>> shaped(1.5, {"answer": 1.0, "format": 0.5}, {"format": 0.0})
    1.0
    """
    return reward + sum((weights[name] - 1.0) * value for name, value in terms.items() if name in weights)


class ObservationBudget(_Wrapper):
    """Keep what follows an action within a number of characters.

    Text is cut inside its tags, so that they still close, and says how much of it is shown. What ``reset``
    returns, the task itself, is never cut.
    """

    def __init__(self, env: _Env, max_characters: int) -> None:
        """Set the budget of one observation.

        Raises:
            SetupError: if it is too small to say what was cut.
        """
        if max_characters < MIN_BUDGET:
            raise SetupError(f"max_characters is {max_characters}; it must be at least {MIN_BUDGET}")
        RecordConstructorArgs.__init__(self, max_characters=max_characters)
        gymnasium.Wrapper.__init__(self, env)
        self._max_characters = max_characters

    def step(self, action: str) -> Stepped:
        """Play one action, and cut what it led to."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._cut(observation), float(reward), terminated, truncated, info

    def _cut(self, observation: Observation) -> Observation:
        budgets = shares([len(message.text) for message in observation], self._max_characters)
        return tuple(cut_message(message, budget) for message, budget in zip(observation, budgets, strict=True))


def shares(lengths: Sequence[int], budget: int) -> list[int]:
    """Divide a budget: short texts keep their length, and the long ones share the rest evenly.

    >>> shares([10, 500, 700], 210)
    [10, 100, 100]
    """
    left, result = budget, list(lengths)
    for number, index in enumerate(sorted(range(len(lengths)), key=lambda index: lengths[index])):
        result[index] = min(lengths[index], left // (len(lengths) - number))
        left -= result[index]
    return result


def cut_message(message: Message, budget: int) -> Message:
    """The message with its text cut to ``budget`` characters. Images stay."""
    if len(message.text) <= budget:
        return message
    if isinstance(message.content, str):
        return replace(message, content=cut(message.content, budget))
    texts = [part.text for part in message.content if isinstance(part, TextPart)]
    budgets = iter(shares([len(text) for text in texts], budget))
    parts: list[Part] = [
        part if isinstance(part, ImagePart) else TextPart(text=cut(part.text, next(budgets)))
        for part in message.content
    ]
    return replace(message, content=tuple(parts))


def cut(text: str, budget: int) -> str:
    """Shorten a text to ``budget`` characters, inside its tags and not through them, and say so.

    Where too little would be left of each block, the last ones are left out whole.

    >>> cut("<result>" + "x" * 500 + "</result>", 100)
    '<result>xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... [cut: 45 of 500 characters shown]</result>'
    """
    if len(text) <= budget:
        return text
    pieces = split_at_tags(text)
    tags = sum(map(len, pieces[1::2]))
    while budget - tags < BLOCK_ROOM * (len(pieces) // 4):
        tags -= len(pieces[-4]) + len(pieces[-2])
        del pieces[-4:]
    left_out = len(text) - sum(map(len, pieces))
    note = f"... [cut: the last {left_out} characters]" if left_out else ""
    words = pieces[0::2]
    rooms = shares([len(word) for word in words], budget - tags - len(note))
    pieces[0::2] = [_shortened(word, room) for word, room in zip(words, rooms, strict=True)]
    return "".join(pieces) + note


def split_at_tags(text: str) -> list[str]:
    """Words, opener, words, closer, words, ...: the complete tags that lie in no other, and what is between them.

    >>> split_at_tags("a <b>c</b> d")
    ['a ', '<b>', 'c', '</b>', ' d']
    """
    pieces: list[str] = []
    position = 0
    last_closer = {match.group(1): match.start() for match in _CLOSER.finditer(text)}
    for match in _OPENER.finditer(text):
        name = match.group(1)
        if match.start() < position or last_closer.get(name, -1) < match.end():
            continue
        closer = f"</{name}>"
        close = text.find(closer, match.end())
        pieces += [text[position : match.start()], match.group(), text[match.end() : close], closer]
        position = close + len(closer)
    return [*pieces, text[position:]]


def _shortened(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    shown = room - len(_note(len(text), len(text)))
    return text[:shown] + _note(shown, len(text)) if shown >= 0 else "..."[: max(0, room)]


def _note(shown: int, total: int) -> str:
    return f"... [cut: {shown} of {total} characters shown]"


def plain_message(message: Message) -> dict[str, Any]:
    """A message as JSON can hold it; of an image, its type and size."""
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if not isinstance(message.content, str):
        plain["content"] = [_plain_part(part) for part in message.content]
    if message.tool_calls:
        plain["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _plain_part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "media_type": part.media_type, "bytes": len(part.data)}
