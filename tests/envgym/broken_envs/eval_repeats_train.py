"""Evaluation asks what was trained on."""

from collections.abc import Sequence

from broken_envs.sound import Sound, make_tasks

from envgym import Task
from envgym.env import Split

CAUGHT_BY = "tasks"


class Env(Sound):
    def tasks(self, split: Split) -> Sequence[Task]:
        return make_tasks("train")
