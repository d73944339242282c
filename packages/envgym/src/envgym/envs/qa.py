"""``qa``: prompts and answers of your own, and rewards of your own.

    user       …the prompt…
    assistant  It follows from the second sentence. <answer>a baker</answer>

``env.tasks=FILE`` names JSON lines or a dataset, ``env.rewards=[{name: …, weight: …, kwargs: …}]`` the functions
that score a response. With more than one turn, a response that is not right gets feedback and another try. Without
arguments it plays ``envgym.worlds.reading``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np

from envgym.env import Observation, Reply, Split, TextEnv
from envgym.envs.qa_task import MakeQuestion, messages_of
from envgym.errors import SetupError
from envgym.messages import Message, Task
from envgym.payment import BestAttempt
from envgym.prompt import fields_in, fill, load_prompt
from envgym.reward_list import RewardEntry, best_outcome, load_reward_list
from envgym.rewards.outcome import Outcome, Status
from envgym.tags import check_tag_name, defuse
from envgym.task_file import load_tasks
from envgym.worlds.reading import make_reading_tasks

PROMPT = "Answer the question. Write the answer as <{answer}> short answer </{answer}>.\n{question}"
AS_IT_IS = "{question}"
FEEDBACK = "{verdict} Turns left: {turns_left}. Try again."

_DEFAULT_REWARDS: tuple[RewardEntry, ...] = ({"name": "exact_match"},)
_STATUSES = tuple(status for status in get_args(Status) if status != "bad_gold")  # which is raised


class QaEnv(TextEnv):
    """Questions with known answers, scored by a list of rewards.

    The return of an episode is the worth of its best turn, and later turns are worth less (``envgym.payment``), so
    nothing earns more than the best response at the first turn. A response that is right ends the episode.
    """

    version = "1"
    isolation = "process"  # rewards may be anybody's code
    deadline_s = 60.0

    def __init__(
        self,
        *,
        tasks: str | None = None,
        eval_tasks: str | None = None,
        question_field: str | None = None,
        answer_field: str | None = None,
        world_seed: int = 0,
        split: Split = "train",
        max_turns: int = 1,
        prompt: str | None = None,
        system: str | None = None,
        feedback: str = FEEDBACK,
        answer_tag: str | None = "answer",
        think_tag: str = "think",
        rewards: Sequence[RewardEntry] = _DEFAULT_REWARDS,
        reward_range: tuple[float, float] = (0.0, 1.0),
        late_cost: float = 0.5,
    ) -> None:
        """Set up the env; tasks are loaded once per process.

        Args:
            tasks: JSON-lines file or dataset (see ``envgym.task_dataset``). One source serves both splits: a tenth
                of the tasks, by a hash of their ids, is for evaluation. Without it the embedded tasks are played.
            eval_tasks: file or dataset for the evaluation split.
            question_field: the field of a row that holds the question: a text, or the messages of a chat. A dot
                leads into an object: ``extra.question``. By default the first of ``QUESTION_FIELDS``.
            answer_field: the field that holds the ground truth: a text or number, a list of accepted texts, or
                whatever else the rewards take. By default the first of ``ANSWER_FIELDS``.
            world_seed: of the embedded tasks.
            split: the tasks that ``reset`` draws from.
            max_turns: turns of an episode.
            prompt: text or file with the field ``{question}``. Other fields of the row can be named as well, and
                ``{max_turns}``, ``{answer}`` and ``{think}`` (the tag names) are filled in. ``{question}`` alone
                takes the question as it is, tags and all; otherwise the env's tags in it are made harmless.
            system: text or file of a system message, if any.
            feedback: text or file with the field ``{turns_left}``, shown after a turn that is not right;
                ``{verdict}`` says what was wrong, and ``{answer}`` and ``{think}`` are filled in too.
            answer_tag: name of the tag around the answer, or None where the rewards look elsewhere. The end of the
                tag is a stop string.
            think_tag: name of the tag to think in, for rewards that know one.
            rewards: the score of a turn: a list of ``{"name", "weight", "kwargs"}`` whose weighted mean counts. A
                name is registered (``envgym.rewards.reward_names()``) or the path ``package.module:function`` of a
                function ``f(ground_truth, response, **kwargs) -> (reward, is_correct or None)``. Tag names are
                handed to those that take ``answer_tag``, ``tag`` or ``think_tag``.
            reward_range: what the weighted mean keeps to.
            late_cost: the share of a score that waiting ``max_turns`` turns would cost.

        Raises:
            SetupError: for a value out of range, a file that is missing or malformed, or an unknown name.
        """
        super().__init__(max_turns=max_turns, split=split)
        low, high = reward_range
        if not low < high:
            raise SetupError(f"reward_range is {list(reward_range)}; it must be two numbers, the lower first")
        self.reward_range = (min(float(low), 0.0), max(float(high), 0.0))  # a turn may be unpaid
        self._tags = {"think": check_tag_name(think_tag)}
        if answer_tag is not None:
            self._tags["answer"] = check_tag_name(answer_tag)
            self.stop_strings = (f"</{answer_tag}>",)
        if answer_tag == think_tag:
            raise SetupError(f"answer_tag and think_tag are both {think_tag!r}; they must differ")
        self._score = load_reward_list(rewards, _tag_arguments(self._tags))
        self._prompt = load_prompt(prompt or (AS_IT_IS if answer_tag is None else PROMPT))
        self._system = None if system is None else load_prompt(system, required=None)
        self._feedback = load_prompt(feedback, required="turns_left")
        self._late_cost = late_cost
        self._payment = BestAttempt(max_turns=max_turns, late_cost=late_cost)
        shown = tuple(
            name for name in fields_in(self._prompt) if name not in ("question", "max_turns", *self._tags)
        )
        make = MakeQuestion(question_field, answer_field, shown)
        self._tasks = _load_tasks(tasks, eval_tasks, max_turns, make, world_seed)

    def tasks(self, split: Split) -> Sequence[Task]:
        """The questions of a split."""
        return self._tasks[split]

    def open(self, task: Task) -> Observation:
        """Ask the question; a chat's last message is put into the prompt, those before it stay as they are."""
        self._payment = BestAttempt(max_turns=self.max_turns, late_cost=self._late_cost)
        *earlier, last = messages_of(task.data["question"])
        fields = {name: self._harmless(str(value)) for name, value in task.data.items() if name != "question"}
        fields |= {"question": self._harmless(last.text), "max_turns": str(self.max_turns), **self._tags}
        system = () if self._system is None else (Message(role="system", content=fill(self._system, fields)),)
        return (*system, *earlier, Message(role="user", content=fill(self._prompt, fields)))

    def _harmless(self, text: str) -> str:
        return text if self._prompt == AS_IT_IS else defuse(text, self._tags.values())

    def respond(self, action: str) -> Reply:
        """Score a response."""
        outcome = best_outcome(self._score, self.task.answer["answers"], action)
        last = outcome.verdict is True or self.turns_left == 0
        return Reply(
            observation=() if last else (Message(role="user", content=self._say(outcome)),),
            reward=self._payment.pay(outcome.reward, last=last),
            done=last,
            success=outcome.verdict,
            reward_terms=outcome.terms,
            metrics={f"outcome_{status}": float(outcome.status == status) for status in _STATUSES},
        )

    def _say(self, outcome: Outcome) -> str:
        fields = {"verdict": self._verdict(outcome), "turns_left": self.turns_left, **self._tags}
        return fill(self._feedback, fields)

    def _verdict(self, outcome: Outcome) -> str:
        if outcome.status == "no_answer" and "answer" in self._tags:
            return f"There was no complete <{self._tags['answer']}> answer </{self._tags['answer']}>."
        if outcome.status == "unparseable":
            return "The answer could not be read."
        return "That is not right." if outcome.verdict is False else "That was scored."

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        """Give the first accepted answer between the answer tags.

        Raises:
            NotImplementedError: if there is no answer tag, or if the ground truth is no text.
        """
        answer = self.task.answer["answers"][0]
        if "answer" not in self._tags or not isinstance(answer, str):
            raise NotImplementedError("without an answer tag and a text to put in it, no scripted expert can play")
        yield f"<{self._tags['answer']}> {answer} </{self._tags['answer']}>"


def _tag_arguments(tags: Mapping[str, str]) -> dict[str, Any]:
    """The tag names under the names that reward functions give them."""
    arguments = {"think_tag": tags["think"]}
    if "answer" in tags:
        arguments |= {"answer_tag": tags["answer"], "tag": tags["answer"]}
    return arguments


def _load_tasks(
    tasks: str | None, eval_tasks: str | None, max_turns: int, make: MakeQuestion, world_seed: int
) -> Mapping[Split, Sequence[Task]]:
    if tasks is not None:
        return load_tasks(tasks, eval_tasks, max_turns, make)
    if eval_tasks is not None:
        raise SetupError(
            "eval_tasks was given without tasks; name a JSON-lines file or a dataset with env.tasks=…"
        )
    if make.question_field or make.answer_field or make.shown:
        raise SetupError("question_field, answer_field and fields in the prompt are for tasks; name them as well")
    return make_reading_tasks(world_seed)
