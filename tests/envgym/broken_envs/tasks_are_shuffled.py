"""Each instance has the tasks in another order, so a task's index means nothing."""

from collections.abc import Sequence

import numpy as np
from broken_envs.sound import Sound, make_tasks

from envgym import Task
from envgym.env import Split

CAUGHT_BY = "tasks"


class Env(Sound):
    def __init__(self, *, max_turns: int = 4) -> None:
        super().__init__(max_turns=max_turns)
        self.order = np.random.default_rng().permutation(len(make_tasks("train")))

    def tasks(self, split: Split) -> Sequence[Task]:
        tasks = make_tasks(split)
        return tasks if split == "eval" else [tasks[int(index)] for index in self.order]
