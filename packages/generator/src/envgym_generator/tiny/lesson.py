"""What the small learner is taught for an env: text for its tokenizer, words to copy, episodes to imitate.

For ``search`` the lesson takes place in sister worlds of the embedded one: the same sentences about other names.
A tokenizer or a model that had seen the names of the embedded world would learn those names and nothing else.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from envgym import Message, SetupError, TextEnv, make_env
from envgym.worlds.search import JOBS, PREFIXES, SUFFIXES, World, make_world

SISTER_WORLDS = 6
TASKS_PER_WORLD = 1000
HASTY_SHARE = 0.65
"""Share of the two-hop tasks that are demonstrated badly: after the first hop, its result is given as the answer.
The second search is what reinforcement learning is left to teach."""
PIECE_REPEATS = 30
EPISODES_READ = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Lesson:
    """One env's lesson."""

    texts: tuple[str, ...]
    """What the tokenizer is trained on."""
    words: tuple[str, ...]
    """Their tokens make up the copying sequences: everything that an answer may be put together from."""
    episodes: tuple[tuple[Mapping[str, Any], int], ...]
    """(arguments of the env, number of its training tasks to demonstrate)."""


def search_lesson(folder: Path, rng: np.random.Generator) -> Lesson:
    """The lesson for ``search``; the sister worlds' corpora and tasks are written into ``folder``."""
    worlds = [make_world(int(seed)) for seed in rng.integers(1_000, 1_000_000, size=SISTER_WORLDS)]
    episodes = [_write_world(world, folder / f"world-{number}", rng) for number, world in enumerate(worlds)]
    prompt = _opening(make_env("search"))
    return Lesson(
        texts=(*(prompt,) * PIECE_REPEATS, *_pieces(), *_sentences_without_names(worlds[0])),
        words=(*(f" {word}" for word in (*PREFIXES, *JOBS)), *SUFFIXES),
        episodes=tuple((arguments, TASKS_PER_WORLD) for arguments in episodes),
    )


def _write_world(world: World, folder: Path, rng: np.random.Generator) -> dict[str, Any]:
    """Write the world in the shape that ``env.corpus`` and ``env.tasks`` take, with hasty demonstrations."""
    folder.mkdir(parents=True)
    corpus, tasks = folder / "corpus.jsonl", folder / "tasks.jsonl"
    _write_lines(corpus, ({"id": d.id, "contents": f'"{d.title}"\n{d.text}'} for d in world.documents))
    every_task = [*world.tasks["train"], *world.tasks["eval"]]
    _write_lines(
        tasks,
        (
            {"id": task.id, "question": task.data["question"], **_demonstrated(task.answer, rng)}
            for task in every_task
        ),
    )
    return {"corpus": str(corpus), "tasks": str(tasks), "topk": 1}


def _demonstrated(answer: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The queries and the answer to play; for a hasty two-hop task, the answer is what the second query asks."""
    queries, answers = list(answer["queries"]), list(answer["answers"])
    if len(queries) == 2 and rng.random() < HASTY_SHARE:
        return {"queries": queries[:1], "answers": queries[1:]}
    return {"queries": queries, "answers": answers}


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _pieces() -> Iterator[str]:
    """Every piece of a name as a word of its own, so that it becomes one token, alone and in any name."""
    for _ in range(PIECE_REPEATS):
        yield from (f" {prefix}" for prefix in PREFIXES)
        yield from SUFFIXES


def _sentences_without_names(world: World) -> Iterator[str]:
    names = {prefix + suffix for prefix in PREFIXES for suffix in SUFFIXES}
    for text in (
        *(document.text for document in world.documents),
        *(task.data["question"] for task in world.tasks["train"]),
    ):
        yield " ".join(word for word in text.split() if word.strip(".?") not in names)


def any_lesson(env_name: str, rng: np.random.Generator) -> Lesson:
    """The lesson for an env that offers ``demonstrate``, in its default configuration.

    Raises:
        SetupError: if the env has no scripted expert.
    """
    env = make_env(env_name)
    if type(env).demonstrate is TextEnv.demonstrate:
        raise SetupError(
            f"model=tiny is taught by the env's scripted expert, and {env_name!r} has none (demonstrate); "
            "choose a pretrained model with model=<name or folder>"
        )
    texts = tuple(text for _ in range(EPISODES_READ) for text in _watch_expert(env, rng))
    count = min(len(env.tasks("train")), SISTER_WORLDS * TASKS_PER_WORLD)
    return Lesson(texts=texts, words=tuple(dict.fromkeys(texts)), episodes=(({}, count),))


def _watch_expert(env: TextEnv, rng: np.random.Generator) -> Iterator[str]:
    """The texts of one episode that the expert plays on a random training task."""
    messages, _ = env.reset(seed=int(rng.integers(2**31)))
    yield _joined(messages)
    for action in env.demonstrate(rng):
        yield action
        messages, _, terminated, truncated, _ = env.step(action)
        yield _joined(messages)
        if terminated or truncated:
            return


def _opening(env: TextEnv) -> str:
    """The prompt of the env's first training task, without the question that it poses."""
    task = env.tasks("train")[0]
    messages, _ = env.reset(seed=0, options={"task": task})
    return _joined(messages).replace(str(task.data["question"]), "")


def _joined(messages: tuple[Message, ...]) -> str:
    return "\n".join(message.text for message in messages)
