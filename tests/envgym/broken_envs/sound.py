"""The env that the broken ones are made from. It has no fault."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from envgym import Message, Reply, Task, TextEnv
from envgym.env import Observation, Split
from envgym.tags import defuse, first_tag

WORDS = {
    "train": ("lantern", "harbour", "thimble", "orchard", "bellows", "saddle"),
    "eval": ("anvil", "compass", "trellis", "pulley"),
}
TAGS = ("ask", "answer", "hint")


@lru_cache
def make_tasks(split: Split) -> tuple[Task, ...]:
    return tuple(
        Task(
            id=f"{split}-{number}",
            data={"clue": f"It has {len(word)} letters.", "hints": tuple(f"It has a letter {x}." for x in word)},
            answer={"word": word},
        )
        for number, word in enumerate(WORDS[split])
    )


class Sound(TextEnv):
    """A word is to be found. ``<ask></ask>`` shows a random letter of it, ``<answer>word</answer>`` says it."""

    deadline_s = 20.0
    isolation = "inline"
    stop_strings = ("</ask>", "</answer>")

    def __init__(self, *, max_turns: int = 4, split: Split = "train") -> None:
        super().__init__(max_turns=max_turns, split=split)

    @classmethod
    def of_three_turns(cls) -> "Sound":
        return cls(max_turns=3)

    def tasks(self, split: Split) -> Sequence[Task]:
        return make_tasks(split)

    def open(self, task: Task) -> Observation:
        self.asked = 0
        return self.say(
            f"Find the word. {self.shown(task.data['clue'])} Write <ask></ask> for a hint and <answer>the "
            f"word</answer> to answer. You have {self.max_turns} turns."
        )

    def respond(self, action: str) -> Reply:
        tag = first_tag(action, ("ask", "answer"))
        if tag is None:
            return self.not_solved("Write <ask></ask> or <answer>word</answer>.")
        if tag.name == "ask":
            self.asked += 1
            hints = self.task.data["hints"]
            hint = hints[int(self.np_random.integers(len(hints)))]
            return self.not_solved(f"<hint>Number {self.asked}: {self.shown(hint)}</hint>")
        if tag.content == self.task.answer["word"]:
            return Reply(reward=1.0, done=True, success=True, reward_terms={"answer": 1.0})
        return self.not_solved("That is not the word.")

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        yield "<ask></ask>"
        yield f"<answer>{self.task.answer['word']}</answer>"

    def say(self, text: str) -> Observation:
        return (Message(role="user", content=text),)

    def shown(self, text: str) -> str:
        return defuse(text, TAGS)

    def not_solved(self, text: str) -> Reply:
        return Reply(observation=self.say(text), success=False, reward_terms={"answer": 0.0})


class Talkative(Sound):
    """Prints what it is given."""

    def respond(self, action: str) -> Reply:
        print("given", repr(action[:100]), flush=True)
        return super().respond(action)


class WithoutScript(Sound):
    """Its class has an expert, its tasks do not say how to play them."""

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        raise NotImplementedError("these tasks have no script")
        yield ""
