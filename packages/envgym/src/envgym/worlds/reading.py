"""The embedded tasks of the ``qa`` env: a passage from the fictional world of ``search`` and a question on it.

The passage holds the sentences that the answer follows from, among others that do not matter. Training and
evaluation passages share no entity that is asked about.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from envgym.env import Split
from envgym.messages import Task
from envgym.worlds.search import make_world

OTHER_SENTENCES = 4


@lru_cache(maxsize=4)
def make_reading_tasks(seed: int = 0) -> Mapping[Split, tuple[Task, ...]]:
    """The tasks of this seed, with ``question`` (the passage above it) and the accepted ``answers``."""
    world = make_world(seed)
    rng = np.random.default_rng([seed, 0x9A])
    sentences = {document.title: document.text for document in world.documents}
    titles = list(sentences)

    def pose(task: Task) -> Task:
        others = [titles[int(index)] for index in rng.integers(len(titles), size=OTHER_SENTENCES)]
        chosen = sorted({*task.answer["supporting_titles"], *others})
        passage = " ".join(sentences[chosen[int(index)]] for index in rng.permutation(len(chosen)))
        return Task(
            id=task.id,
            data={"question": f"{passage}\n{task.data['question']}"},
            answer={"answers": task.answer["answers"]},
        )

    return {split: tuple(pose(task) for task in tasks) for split, tasks in world.tasks.items()}
