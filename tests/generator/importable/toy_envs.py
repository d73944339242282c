"""Toy envs. Worker processes import them by name, so this file imports nothing heavy."""

import re
import time
from collections.abc import Iterator, Sequence

from envgym import InfrastructureError, Message, Reply, Task, TextEnv


class Guess(TextEnv):
    """Guess a number below 20 in at most four turns; the env says higher or lower."""

    isolation = "inline"
    version = "3"

    def __init__(self, *, max_turns: int = 4, num_tasks: int = 24, prompt: str = "Guess a number.") -> None:
        super().__init__(max_turns=max_turns)
        self.stop_strings = ("</guess>",)
        self.num_tasks = num_tasks
        self.prompt = prompt

    def tasks(self, split: str) -> Sequence[Task]:
        count = self.num_tasks if split == "train" else 2
        return [Task(id=f"{split}-{n}", data={}, answer={"number": 3 * n % 20}) for n in range(count)]

    def open(self, task: Task) -> tuple[Message, ...]:
        self.low, self.high = 0, 20
        return (Message(role="user", content=self.prompt),)

    def respond(self, action: str) -> Reply:
        found = re.search(r"<guess>(\d+)</guess>", action)
        if not found:
            return Reply(observation=(Message(role="user", content="Say <guess>NUMBER</guess>."),))
        guess, number = int(found[1]), self.task.answer["number"]
        if guess == number:
            return Reply(
                reward=0.5, done=True, success=True, reward_terms={"right": 0.5}, metrics={"low": self.low}
            )
        self.low, self.high = (max(self.low, guess + 1), self.high) if guess < number else (self.low, guess)
        word = "higher" if guess < number else "lower"
        return Reply(observation=(Message(role="user", content=f"The answer is {word}."),), reward=0.05)

    def demonstrate(self, rng) -> Iterator[str]:
        yield f"Let me see. <guess>{rng.integers(self.low, self.high)}</guess>"
        yield f"<guess>{self.task.answer['number']}</guess>"


class Broken(Guess):
    """Guess, where each task breaks in the way that ``faults`` names for it, in its second turn."""

    deadline_s = 3.0

    def __init__(self, *, faults: Sequence[str] = (), max_turns: int = 4, num_tasks: int = 24) -> None:
        super().__init__(max_turns=max_turns, num_tasks=num_tasks)
        self.faults = tuple(faults)

    def respond(self, action: str) -> Reply:
        index = int(self.task.id.rpartition("-")[2])
        fault = self.faults[index] if index < len(self.faults) else ""
        if self.turn == 1:
            self._break(fault)
        return super().respond(action)

    def _break(self, fault: str) -> None:
        if fault == "raise":
            raise RuntimeError("a bug in the env")
        if fault == "outage":
            raise InfrastructureError("the retriever is down")
        if fault == "sleep":
            time.sleep(60)
        if fault == "regex":
            re.match(r"(a+)+$", "a" * 64 + "b")
        if fault == "exit":
            raise SystemExit(7)

    def step(self, action: str):
        observation, reward, terminated, truncated, info = super().step(action)
        index = int(self.task.id.rpartition("-")[2])
        is_nan = index < len(self.faults) and self.faults[index] == "nan" and self.turn == 2
        return observation, float("nan") if is_nan else reward, terminated, truncated, info


class BrokenInProcess(Broken):
    """The same in a worker process."""

    isolation = "process"


class BrokenInThread(Broken):
    """The same in a thread."""

    isolation = "thread"


class TimeLimited(Guess):
    """Guess under a limit from outside the env: it truncates after two turns."""

    def step(self, action: str):
        observation, reward, terminated, _, info = super().step(action)
        truncated = not terminated and self.turn == 2
        if truncated:
            info |= {"success": None, "metrics": {}}
        return observation, reward, terminated, truncated, info
