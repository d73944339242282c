"""The embedded world of the ``search`` env: a fictional country of people, towns, rivers, guilds and books.

Each of its 2,400 documents is one sentence about one entity. A question needs one document, or two of them in a
row: the second is about an entity that only the first one names. The world consists of two halves that share no
entity; training tasks ask about one, evaluation tasks about the other, and both are searched in one corpus.

Names are invented: a prefix and a suffix of three letters each, drawn without replacement. Everything follows
from the seed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from envgym.env import Split
from envgym.messages import Task
from envgym.retrieval.corpus import Document

# A prefix ends in a consonant that no suffix starts with. Inside a piece two consonants never meet, so a
# byte-level BPE trained on the pieces cannot merge across the border: every name is two tokens.
PREFIXES = tuple(
    first + vowel + last
    for first in "BDFGHJKLMPRSTVZ"
    for vowel, last in zip("aeiou", "lrlnr" if first in "BFHKMRTZ" else "nlrnl", strict=True)
)
SUFFIXES = tuple(
    first + vowel + last for first in "vkzgbp" for vowel in "aeiou" for last in ("sx" if first in "vzb" else "nk")
)
JOBS = (
    "baker", "carpenter", "clerk", "cook", "dyer", "farmer", "fisher", "gardener", "glazier", "hunter", "joiner",
    "mason", "miller", "miner", "painter", "potter", "sailor", "shepherd", "singer", "smith", "tailor", "tanner",
    "teacher", "weaver",
)  # fmt: skip

PEOPLE, TOWNS, RIVERS, SEAS, GUILDS, BOOKS = 400, 200, 120, 40, 240, 240  # entities of one half
ONE_HOP_SHARE = 0.4


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """Documents, and tasks by split.

    ``Task.data`` holds ``question`` and ``kind``; ``Task.answer`` holds ``answers``, the ``queries`` that an
    expert sends in order, and ``supporting_titles``.
    """

    documents: tuple[Document, ...]
    tasks: Mapping[Split, tuple[Task, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Half:
    """The facts of one half, each a mapping from an entity's name to another name (or to a job)."""

    job: dict[str, str]
    home: dict[str, str]
    river: dict[str, str]
    sea: dict[str, str]
    founder: dict[str, str]
    writer: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    """A kind of question, named after the relations that lead from the entity in its wording to the answer."""

    name: str
    wording: str
    relations: tuple[str, ...]


KINDS = tuple(
    _Kind(name=name, wording=wording, relations=tuple(name.split("-")))
    for name, wording in (
        ("job", "What is the job of {}?"),
        ("home", "In which town does {} live?"),
        ("river", "On which river lies the town {}?"),
        ("sea", "Into which sea flows the river {}?"),
        ("founder", "Who founded the guild {}?"),
        ("writer", "Who wrote the book {}?"),
        ("home-river", "On which river lies the home town of {}?"),
        ("river-sea", "Into which sea flows the river of the town {}?"),
        ("founder-job", "What is the job of the founder of the guild {}?"),
        ("founder-home", "In which town lives the founder of the guild {}?"),
        ("writer-job", "What is the job of the writer of the book {}?"),
        ("writer-home", "In which town lives the writer of the book {}?"),
    )
)


@lru_cache(maxsize=4)
def make_world(seed: int = 0) -> World:
    """Build the world of this seed; the same seed gives the same world in every process."""
    rng = np.random.default_rng([seed, 0x5EA])
    names = iter(_draw_names(rng))
    halves: dict[Split, _Half] = {"train": _make_half(rng, names), "eval": _make_half(rng, names)}
    pages: list[tuple[str, str]] = [page for half in halves.values() for page in _describe(half)]
    order = rng.permutation(len(pages))
    shuffled = [pages[int(index)] for index in order]
    documents = tuple(
        Document(id=str(number), title=title, text=text) for number, (title, text) in enumerate(shuffled)
    )
    tasks: dict[Split, tuple[Task, ...]] = {split: _ask(half, split, rng) for split, half in halves.items()}
    return World(documents=documents, tasks=tasks)


def _draw_names(rng: np.random.Generator) -> Iterator[str]:
    """All names in random order, each once."""
    for index in rng.permutation(len(PREFIXES) * len(SUFFIXES)):
        prefix, suffix = divmod(int(index), len(SUFFIXES))
        yield PREFIXES[prefix] + SUFFIXES[suffix]


def _make_half(rng: np.random.Generator, names: Iterator[str]) -> _Half:
    def take(count: int) -> list[str]:
        return [next(names) for _ in range(count)]

    def link(sources: list[str], targets: list[str] | tuple[str, ...]) -> dict[str, str]:
        picks = rng.integers(len(targets), size=len(sources))
        return {source: targets[int(pick)] for source, pick in zip(sources, picks, strict=True)}

    people, towns, rivers = take(PEOPLE), take(TOWNS), take(RIVERS)
    return _Half(
        job=link(people, JOBS),
        home=link(people, towns),
        river=link(towns, rivers),
        sea=link(rivers, take(SEAS)),
        founder=link(take(GUILDS), people),
        writer=link(take(BOOKS), people),
    )


def _describe(half: _Half) -> Iterator[tuple[str, str]]:
    """One (title, sentence) per entity. A name always stands behind a space."""
    for person, job in half.job.items():
        yield person, f"The villager {person} has the job {job} and lives in the town {half.home[person]}."
    for town, river in half.river.items():
        yield town, f"The town {town} lies on the river {river}."
    for river, sea in half.sea.items():
        yield river, f"The river {river} flows into the sea {sea}."
    for guild, person in half.founder.items():
        yield guild, f"The guild {guild} was founded by {person}."
    for book, person in half.writer.items():
        yield book, f"The book {book} was written by {person}."


def _ask(half: _Half, split: Split, rng: np.random.Generator) -> tuple[Task, ...]:
    """Every question that a half can answer, thinned so that one hop makes up ``ONE_HOP_SHARE`` of them."""
    tasks = {hops: list(_pose(half, split, hops)) for hops in (1, 2)}
    wanted = round(len(tasks[2]) * ONE_HOP_SHARE / (1 - ONE_HOP_SHARE))
    kept = sorted(rng.choice(len(tasks[1]), size=wanted, replace=False))
    mixed = [tasks[1][int(index)] for index in kept] + tasks[2]
    return tuple(mixed[int(index)] for index in rng.permutation(len(mixed)))


def _pose(half: _Half, split: Split, hops: int) -> Iterator[Task]:
    facts: dict[str, dict[str, str]] = {
        "job": half.job, "home": half.home, "river": half.river,
        "sea": half.sea, "founder": half.founder, "writer": half.writer,
    }  # fmt: skip
    for kind in KINDS:
        if len(kind.relations) != hops:
            continue
        for start in facts[kind.relations[0]]:
            path = [start]
            for relation in kind.relations:
                path.append(facts[relation][path[-1]])
            yield Task(
                id=f"{split}-{kind.name}-{start}",
                data={"question": kind.wording.format(start), "kind": kind.name},
                answer={
                    "answers": (path[-1],),
                    "queries": tuple(path[:-1]),
                    "supporting_titles": tuple(path[:-1]),
                },
            )
