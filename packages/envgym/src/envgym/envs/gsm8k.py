"""``gsm8k``: word problems whose answer is a number, in several turns.

    user       …the problem…
    assistant  5 boxes of 12 are 50. #### 50
    user       That is not the right number. 4 turns are left. …
    assistant  5 * 12 = 60. #### 60

Each turn ends with a tentative number behind ``####``; a right one ends the episode. Without arguments it plays
the problems of ``envgym.worlds.word_problems``.
"""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from envgym.env import Observation, Reply, Split, TextEnv
from envgym.errors import SetupError
from envgym.final_number import MARKER, read_number
from envgym.messages import Message, Task
from envgym.payment import BestAttempt
from envgym.prompt import fill, load_prompt
from envgym.reward_list import RewardEntry, load_reward_list
from envgym.rewards.final_number import final_number_reward
from envgym.rewards.outcome import Outcome
from envgym.task_file import load_tasks, task_id
from envgym.worlds.word_problems import LEVELS, make_problems

PROMPT = (
    "Solve the problem. Reason step by step and end with a tentative number, written as {marker} NUMBER\n"
    "You have {max_turns} turns. A right number ends the task, the sooner the better.\n"
    "Problem: {question}"
)
ONE_TURN_PROMPT = (
    "Solve the problem. Reason step by step and end with the final number, written as {marker} NUMBER\n"
    "Problem: {question}"
)

Scheme: TypeAlias = Literal["right_first", "per_turn_format"]
PEER_FORMAT_SCORE = 0.2
"""What ``per_turn_format`` pays for the form of all turns together."""

_DEFAULT_REWARDS: tuple[RewardEntry, ...] = ({"name": "final_number"},)
_CALCULATION = re.compile(r"<<[^<>]*>>")


class Gsm8kEnv(TextEnv):
    """Word problems with a number as answer, a reward per turn and feedback that names the turns left.

    Attributes:
        scheme: how turns are paid. ``right_first``: the return is the worth of the best turn, and later turns are
            worth less (``envgym.payment``), so nothing earns more than the right number at the first turn.
            ``per_turn_format``: as other systems pay it, 1 for the right number and 0.2 / ``max_turns`` for each
            wrong one in the right form. **Exploitable**: four wrong numbers before the right one earn 1.16, the
            right one at once earns 1.00. It is there for comparison, and warns.
    """

    version = "1"
    isolation = "inline"
    deadline_s = 30.0

    def __init__(
        self,
        *,
        tasks: str | None = None,
        eval_tasks: str | None = None,
        level: int | None = None,
        world_seed: int = 0,
        split: Split = "train",
        max_turns: int = 5,
        scheme: Scheme | str = "right_first",
        strict: bool = False,
        format_score: float = 0.1,
        late_cost: float = 0.5,
        marker: str = MARKER,
        prompt: str | None = None,
        rewards: Sequence[RewardEntry] = _DEFAULT_REWARDS,
    ) -> None:
        r"""Set up the env; tasks are loaded once per process.

        Args:
            tasks: JSON-lines file of ``{"question", "answer"}``, the answer ending in ``#### NUMBER`` as in GSM8K,
                or a dataset of such rows, for example ``openai/gsm8k:main@train``. One source serves both splits
                (a tenth, by a hash of the ids, is for evaluation). Without it the embedded problems are played.
            eval_tasks: file or dataset for the evaluation split.
            level: of the embedded problems, 1 to 4; all levels by default.
            world_seed: of the embedded problems.
            split: the tasks that ``reset`` draws from.
            max_turns: turns of an episode. In the last one the final number alone is asked for.
            scheme: ``right_first`` or ``per_turn_format``, see above.
            strict: read numbers as the field's usual grader does, for parity: the first ``#### `` counts, and what
                follows is compared as text. By default the last one counts and numbers are compared as numbers.
            format_score: with ``right_first``, the score of a wrong number in the right place.
            late_cost: with ``right_first``, the share of a score that waiting ``max_turns`` turns would cost.
            marker: what stands before the number. ``\boxed{NUMBER}`` is read where there is none.
            prompt: text or file with the field ``{question}``; ``{max_turns}`` and ``{marker}`` are filled in too.
            rewards: the score of a turn: a list of ``{"name", "weight", "kwargs"}`` whose weighted mean counts;
                see ``envgym.reward_list``. They are called with the number and the turn.

        Raises:
            SetupError: for a value out of range, a file that is missing or malformed, or an unknown name.
        """
        super().__init__(max_turns=max_turns, split=split)
        if (strict and marker != MARKER) or not marker.strip():
            raise SetupError(f"marker is {marker!r}; it must not be blank, and strict needs {MARKER!r}")
        if not 0 <= format_score < 1:
            raise SetupError(f"format_score is {format_score}; it must be at least 0 and below 1")
        self.scheme = _check_scheme(scheme, rewards)
        pays_format = scheme == "per_turn_format"
        self._score = load_reward_list(
            rewards,
            {
                "marker": marker,
                "strict": strict,
                "format_score": PEER_FORMAT_SCORE / max_turns if pays_format else format_score,
            },
        )
        self._late_cost = late_cost
        if pays_format:
            self.reward_range = (0.0, 1.0 + PEER_FORMAT_SCORE * (max_turns - 1) / max_turns)
        self._prompt = load_prompt(prompt or (PROMPT if max_turns > 1 else ONE_TURN_PROMPT))
        self._marker, self._strict = marker, strict
        self._payment = BestAttempt(max_turns=max_turns, late_cost=late_cost)
        self._tasks = _load_tasks(tasks, eval_tasks, max_turns, level, world_seed)

    def tasks(self, split: Split) -> Sequence[Task]:
        """The problems of a split."""
        return self._tasks[split]

    def open(self, task: Task) -> Observation:
        """Pose the problem."""
        self._payment = BestAttempt(max_turns=self.max_turns, late_cost=self._late_cost)
        # A marker inside the problem would look like one of the env's own.
        question = str(task.data["question"]).replace(self._marker, " ".join(self._marker))
        fields = {"question": question, "max_turns": self.max_turns, "marker": self._marker}
        return (Message(role="user", content=fill(self._prompt, fields)),)

    def respond(self, action: str) -> Reply:
        """Judge the number of a turn."""
        number = str(self.task.answer["number"])
        outcome = self._score(number, action)
        own = outcome
        if outcome.verdict is None:
            own = final_number_reward(number, action, strict=self._strict, marker=self._marker)
        right = own.verdict is True
        last = right or self.turns_left == 0
        return Reply(
            observation=() if last else (Message(role="user", content=self._feedback(own)),),
            reward=self._pay(outcome.reward, last=last),
            done=last,
            success=right,
            reward_terms=outcome.terms,
            metrics={"right_at_first_turn": float(right and self.turn == 0)},
        )

    def _pay(self, score: float, *, last: bool) -> float:
        return score if self.scheme == "per_turn_format" else self._payment.pay(score, last=last)

    def _feedback(self, outcome: Outcome) -> str:
        """What was wrong, how many turns are left, and what is asked for now."""
        if outcome.status == "no_answer":
            wrong = f"There is no number behind {self._marker}."
        else:
            wrong = "That is not the right number."
        if self.turns_left == 1:
            return f"{wrong} 1 turn is left: give only the final number now, written as {self._marker} NUMBER"
        return (
            f"{wrong} {self.turns_left} turns are left. Reason step by step again "
            f"and end with a tentative number, written as {self._marker} NUMBER"
        )

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        """Work the problem out and give the right number at once."""
        yield f"{self.task.answer['solution']}\n{self._marker} {self.task.answer['number']}"


def _check_scheme(scheme: str, rewards: Sequence[RewardEntry]) -> Scheme:
    if scheme not in get_args(Scheme):
        raise SetupError(f"scheme is {scheme!r}; it must be one of: {', '.join(get_args(Scheme))}")
    if scheme == "right_first":
        return "right_first"
    if list(rewards) != list(_DEFAULT_REWARDS):
        raise SetupError("scheme 'per_turn_format' fixes what a turn earns; leave out rewards")
    warnings.warn(
        "scheme 'per_turn_format' is exploitable: wrong numbers before the right one earn more than the right one "
        "at once; it is there for comparison",
        stacklevel=3,
    )
    return "per_turn_format"


def _load_tasks(
    tasks: str | None, eval_tasks: str | None, max_turns: int, level: int | None, world_seed: int
) -> Mapping[Split, Sequence[Task]]:
    if tasks is None and eval_tasks is None:
        if level is not None and level not in LEVELS:
            raise SetupError(f"level is {level}; it must be one of: {', '.join(map(str, LEVELS))}")
        return make_problems(world_seed, level)
    if tasks is None:
        raise SetupError(
            "eval_tasks was given without tasks; name a JSON-lines file or a dataset with env.tasks=…"
        )
    if level is not None:
        raise SetupError("level is for the embedded problems; leave it out, or leave out tasks")
    return load_tasks(tasks, eval_tasks, max_turns, make_problem)


def make_problem(fields: Mapping[str, Any], place: str, number: int) -> Task:
    """A task from a row of GSM8K: its ``answer`` is a worked solution that ends in ``#### NUMBER``, or a number.

    Raises:
        SetupError: if the question is missing or no number can be read.
    """
    question, answer = fields.get("question"), fields.get("answer")
    if not isinstance(question, str) or not question.strip():
        raise SetupError(f'{place}: "question" must be a string that is not empty')
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise SetupError(f'{place}: "answer" must be a text that ends in "#### NUMBER", or a number')
    solution, _, gold = str(answer).rpartition(MARKER)
    gold = gold.strip()
    if read_number(gold) is None:
        raise SetupError(f'{place}: no number can be read at the end of "answer"; it must end in "#### NUMBER"')
    worked = _CALCULATION.sub("", solution).strip()
    return Task(
        id=task_id(fields, number), data={"question": question}, answer={"number": gold, "solution": worked}
    )
