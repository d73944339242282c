"""Break a code by guessing.

user       Break the code of 3 digits from 1 to 6. ...
assistant  <guess>123</guess>
user       1 in place, 1 elsewhere.
assistant  <guess>134</guess>
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from codebreaker.code import all_codes, compare, consistent
from envgym import Message, Reply, SetupError, Task, TextEnv
from envgym.env import Observation, Split
from envgym.prompt import fill, load_prompt
from envgym.tags import check_tag_name, first_tag

PROMPT = (
    "Break the code of {length} digits from 1 to {symbols}; a digit may occur more than once. Guess by writing "
    "<{guess}>digits</{guess}>. You are told how many digits are in place, and how many more are right but "
    "elsewhere. You have {max_turns} guesses."
)
MAX_CODES = 10_000
EVAL_SHARE = 5
"""One code in so many is kept for evaluation."""


@lru_cache
def make_tasks(length: int, symbols: int, split: Split) -> tuple[Task, ...]:
    """One task per code."""
    return tuple(
        Task(id=f"code-{number}", data={"length": length, "symbols": symbols}, answer={"code": code})
        for number, code in enumerate(all_codes(length, symbols))
        if (number % EVAL_SHARE == 0) == (split == "eval")
    )


class CodebreakerEnv(TextEnv):
    """Break a code of digits; each guess is answered with how close it is."""

    version = "1"
    isolation = "inline"  # nothing here can hang

    def __init__(
        self,
        *,
        length: int = 3,
        symbols: int = 6,
        max_turns: int = 10,
        split: Split = "train",
        prompt: str = PROMPT,
        guess_tag: str = "guess",
    ) -> None:
        """Set up the env.

        Args:
            length: digits of a code.
            symbols: the digits go from 1 to this one.
            max_turns: guesses per episode.
            split: the tasks that ``reset`` draws from.
            prompt: text or file with the field ``{length}``; ``{symbols}``, ``{max_turns}`` and ``{guess}``, the
                name of the tag, are filled in too.
            guess_tag: name of the tag around a guess.

        Raises:
            SetupError: for a value out of range, or a prompt that is neither a file nor a text with its field.
        """
        super().__init__(max_turns=max_turns, split=split)
        if not 2 <= symbols <= 9:
            raise SetupError(f"symbols is {symbols}; it must be from 2 to 9")
        if not (length >= 1 and EVAL_SHARE <= symbols**length <= MAX_CODES):
            raise SetupError(f"length is {length}, which makes {symbols}**{length} codes, not 5 to {MAX_CODES}")
        self.length = length
        self.symbols = symbols
        self.guess_tag = check_tag_name(guess_tag)
        self.stop_strings = (f"</{guess_tag}>",)
        self._prompt = load_prompt(prompt, required="length")

    def tasks(self, split: Split) -> Sequence[Task]:
        """All codes of a split."""
        return make_tasks(self.length, self.symbols, split)

    def open(self, task: Task) -> Observation:
        """Say what is to be done."""
        return _say(fill(self._prompt, {**task.data, "max_turns": self.max_turns, "guess": self.guess_tag}))

    def respond(self, action: str) -> Reply:
        """Compare a guess with the code. Only the code itself earns a reward."""
        guess = self.read_guess(action)
        if guess is None:
            form = f"<{self.guess_tag}>digits</{self.guess_tag}>"
            return _not_solved(f"Write {self.length} digits from 1 to {self.symbols} as {form}.")
        if guess == self.task.answer["code"]:
            return Reply(reward=1.0, done=True, success=True, reward_terms={"broken": 1.0})
        in_place, elsewhere = compare(guess, self.task.answer["code"])
        return _not_solved(f"{in_place} in place, {elsewhere} elsewhere.")

    def read_guess(self, action: str) -> str | None:
        """The digits in the first complete tag, or None where they make no code."""
        tag = first_tag(action, [self.guess_tag])
        digits = "".join(tag.content.split()) if tag else ""
        known = "123456789"[: self.symbols]
        return digits if len(digits) == self.length and all(digit in known for digit in digits) else None

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        """Guess any code that all answers so far admit."""
        left = list(all_codes(self.length, self.symbols))
        while left:
            guess = left[int(rng.integers(len(left)))]
            yield f"<{self.guess_tag}>{guess}</{self.guess_tag}>"
            left = consistent(left, guess, compare(guess, self.task.answer["code"]))


def _say(text: str) -> Observation:
    return (Message(role="user", content=text),)


def _not_solved(text: str) -> Reply:
    return Reply(observation=_say(text), success=False, reward_terms={"broken": 0.0})
