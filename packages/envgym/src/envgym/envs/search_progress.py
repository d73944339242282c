"""The parts of the search env's reward that do not wait for the answer: form and findings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from envgym.errors import SetupError
from envgym.messages import Task
from envgym.retrieval.corpus import Document


@dataclass(slots=True)
class SearchProgress:
    """What an episode has earned so far besides its answer, as two shares in [0, 1].

    Form: each of the ``max_turns`` turns is worth as much, and an answer stands for itself and the turns that it
    makes needless. Findings: each supporting document counts when it is found first, and a right answer counts as
    having found the rest. So both shares end at 1 for whoever is right at the first turn, and never beyond.
    """

    max_turns: int
    supporting: frozenset[str] = frozenset()
    """Ids or titles of the documents that the task needs, as ``key`` reads them from a document."""
    key: str = "title"
    found: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, task: Task, max_turns: int, *, needs_supporting: bool) -> "SearchProgress":
        """Start for a task.

        Raises:
            SetupError: if the task must name supporting documents and does not.
        """
        answer: Mapping[str, Any] = task.answer
        ids, titles = answer.get("supporting_ids", ()), answer.get("supporting_titles", ())
        if needs_supporting and not (ids or titles):
            raise SetupError(
                f"task {task.id!r} names no supporting_ids or supporting_titles, which retrieval_weight needs"
            )
        return cls(max_turns, frozenset(ids or titles), "id" if ids else "title")

    def form(self, turn: int, *, well_formed: bool, answers: bool) -> float:
        """The share of a turn's form; ``turn`` counts from 0."""
        if not well_formed:
            return 0.0
        return (self.max_turns - turn if answers else 1) / self.max_turns

    def find(self, documents: Iterable[Document]) -> float:
        """The share of the supporting documents that were not found before. Their text is not looked at."""
        keys = {document.id if self.key == "id" else document.title for document in documents}
        new = (keys & self.supporting) - self.found
        self.found |= new
        return len(new) / len(self.supporting) if self.supporting else 0.0

    def find_rest(self) -> float:
        """The share that is still missing, which a right answer makes up for."""
        missing = self.supporting - self.found
        self.found |= missing
        return len(missing) / len(self.supporting) if missing else 0.0
