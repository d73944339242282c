"""``txt2sql``: explore a SQLite database with queries, then answer a question with one.

    user       …the schema and a question…
    assistant  <sql>SELECT * FROM painting LIMIT 3</sql>
    user       <observation>…a table…</observation>
    assistant  <solution>SELECT count(*) FROM painting WHERE style = 'gothic'</solution>

The queries run in killable workers that can only read. A solution is right if it gives what the gold query gives.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from envgym.env import Observation, Reply, Split, TextEnv
from envgym.errors import BadGoldError, InfrastructureError, SetupError
from envgym.messages import Message, Task
from envgym.prompt import fill, load_prompt
from envgym.reward_list import RewardEntry, load_reward_list
from envgym.rewards.outcome import Outcome
from envgym.sql.comparator import TOLERANCE, check_mode
from envgym.sql.grade import GRADE_STATUSES, grade
from envgym.sql.lexer import tokens
from envgym.sql.pool import explore
from envgym.sql.render import render
from envgym.sql.rules import GRADING_SECONDS, GradingRules
from envgym.sql.schema import describe_database, show_name, table_names
from envgym.sql.source import TaskSource, embedded_source, file_source
from envgym.sql.table import FAILURE_KINDS, FROZEN_NOW, Caps, Failure, Query
from envgym.tags import Tag, check_tag_name, defuse, first_tag

PROMPT = """\
Answer a question about a SQLite database with one SQL query. The database has this schema:

{schema}

You have {max_turns} turns. In each turn, think first, then do one of two things:
- Write a query between <{sql}> and </{sql}> to look into the database. What it gives comes back between \
<{observation}> and </{observation}>, cut short where it is long.
- Write the query that answers the question between <{solution}> and </{solution}>. This ends the task, so do it \
once you are sure, and in your last turn at the latest.

The result of your solution must have the columns that the question asks for, in that order, and no others.
{evidence}
Question: {question}
"""

OWN_REWARD = "execution_match"
_DEFAULT_REWARDS: tuple[RewardEntry, ...] = ({"name": OWN_REWARD, "weight": 1.0},)


class Txt2SqlEnv(TextEnv):
    """Text to SQL on SQLite databases.

    Attributes:
        rules: how solutions are judged.
        caps: how much of a result is shown.
    """

    version = "1"
    isolation = "thread"  # the waiting is done here, the work in processes that are killed at their deadline
    deadline_s = 120.0

    def __init__(
        self,
        *,
        tasks: str | None = None,
        eval_tasks: str | None = None,
        databases: str | None = None,
        layout: str = "auto",
        world_seed: int = 0,
        split: Split = "train",
        max_turns: int = 5,
        comparator: str = "ordered",
        tolerance: float = TOLERANCE,
        perturb: bool = False,
        perturb_seed: int = 0,
        samples: int = 0,
        explore_seconds: float = 2.0,
        grade_seconds: float = GRADING_SECONDS,
        max_rows: int = 30,
        max_columns: int = 30,
        max_cell_characters: int = 100,
        max_characters: int = 4_000,
        now: str = FROZEN_NOW,
        prompt: str = PROMPT,
        sql_tag: str = "sql",
        solution_tag: str = "solution",
        observation_tag: str = "observation",
        rewards: Sequence[RewardEntry] = _DEFAULT_REWARDS,
        reward_range: tuple[float, float] = (0.0, 1.0),
        no_solution: float = 0.0,
    ) -> None:
        """Set up the env; nothing is read twice in a process.

        Args:
            tasks: a file or dataset in one of the layouts of ``envgym.sql.layouts``; without it the embedded
                databases are used.
            eval_tasks: file or dataset for the evaluation split. Without it the databases of ``tasks`` are split:
                a fifth of them, by their names, is for evaluation.
            databases: the folder of the databases, where it is not beside the task file.
            layout: ``auto``, ``spider``, ``bird``, ``skyrl`` or ``defog``.
            world_seed: of the embedded databases.
            split: the tasks that ``reset`` draws from.
            max_turns: turns of an episode, the solution's included.
            comparator: ``ordered``, ``bag``, ``set``, ``permuted`` or ``subset``.
            tolerance: how far floats may lie apart, relative to the larger of 1 and their size.
            perturb: judge on a mutated copy of the database as well, so that constants fail.
            perturb_seed: of the mutated copies.
            samples: values shown behind each column of the schema.
            explore_seconds: deadline of a query.
            grade_seconds: deadline of the solution, on each database.
            max_rows: rows of a result that are shown.
            max_columns: columns of a result that are shown.
            max_cell_characters: characters of a cell that are shown.
            max_characters: characters of a result that are shown, about.
            now: what ``date('now')`` means, as ``YYYY-MM-DD HH:MM:SS``.
            prompt: text or file with the fields ``{question}``, ``{schema}``, ``{evidence}``, ``{max_turns}`` and
                the tag names ``{sql}``, ``{solution}`` and ``{observation}``.
            sql_tag: name of the tag around a query.
            solution_tag: name of the tag around the solution.
            observation_tag: name of the tag around a result.
            rewards: what a solution earns, as ``envgym.reward_list`` describes. ``execution_match`` is the env's
                own judgement; others are called with the first gold query and the action.
            reward_range: what the weighted mean keeps to.
            no_solution: what an episode without a solution earns; 0 or less.

        Raises:
            SetupError: for a value out of range, a file that is missing or malformed, or an unknown name.
        """
        super().__init__(max_turns=max_turns, split=split)
        self.rules = GradingRules(
            comparator=check_mode(comparator),
            tolerance=tolerance,
            seconds=grade_seconds,
            perturb=perturb,
            seed=perturb_seed,
            now=now,
        )
        self.caps = Caps(
            rows=_at_least_one("max_rows", max_rows),
            columns=_at_least_one("max_columns", max_columns),
            cell_characters=_at_least_one("max_cell_characters", max_cell_characters),
            total_characters=_at_least_one("max_characters", max_characters),
        )
        if explore_seconds <= 0 or no_solution > 0 or samples < 0:
            raise SetupError(
                f"explore_seconds is {explore_seconds}, samples {samples} and no_solution {no_solution}; "
                "they must be above 0, at least 0 and at most 0"
            )
        self.reward_range = (min(reward_range[0], no_solution), reward_range[1])
        self._explore_seconds = explore_seconds
        self._no_solution = no_solution
        self._samples = samples
        self._prompt = load_prompt(prompt)
        self._tags = _check_tags(sql=sql_tag, solution=solution_tag, observation=observation_tag)
        self.stop_strings = (f"</{sql_tag}>", f"</{solution_tag}>")
        self._score = load_reward_list(
            rewards, {"tag": solution_tag, "answer_tag": solution_tag}, {OWN_REWARD: self._execution_match}
        )
        self.source = _find_source(tasks, eval_tasks, databases, layout, world_seed, perturb)

    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of the embedded databases, or of the task files."""
        return self.source.tasks[split]

    def open(self, task: Task) -> Observation:
        """Show the schema and the question."""
        self._database = self.source.database(task)
        self._counts: Counter[str] = Counter()
        evidence = str(task.data.get("evidence") or "")
        fields = {
            "question": self._defuse(str(task.data["question"])),
            "evidence": f"\n{self._defuse(evidence)}\n" if evidence else "",
            "schema": self._defuse(describe_database(self._database, self._samples)),
            "max_turns": self.max_turns,
            **self._tags,
        }
        return (Message(role="user", content=fill(self._prompt, fields)),)

    def respond(self, action: str) -> Reply:
        """Run what stands in the action's first complete tag."""
        tag = first_tag(action, (self._tags["sql"], self._tags["solution"]))
        if tag is None or not tag.content.strip():
            self._counts["malformed"] += 1
            return self._observe(_complain(action, tag, self._tags))
        self._counts["trailing_text"] += bool(action[tag.end :].strip())
        if tag.name == self._tags["solution"]:
            return self._judge(action, tag.content.strip())
        self._counts["queries"] += 1
        return self._observe(self._explore(tag.content.strip()) if self.turns_left else "")

    def _explore(self, sql: str) -> str:
        """What a query gives, as text."""
        query = Query(
            path=str(self._database), sql=sql, seconds=self._explore_seconds, caps=self.caps, now=self.rules.now
        )
        result = explore(query)
        if isinstance(result, Failure):
            self._counts[f"queries_{result.kind}"] += 1
        return self._defuse(render(result))

    def _observe(self, text: str) -> Reply:
        """Answer with a harmless text; where no turn is left, end without a solution."""
        if not self.turns_left:
            return Reply(
                reward=self._no_solution,
                done=True,
                success=False,
                reward_terms={**dict.fromkeys(self._score.names, 0.0), "no_solution": self._no_solution},
                metrics=self._metrics("none"),
            )
        turns = f"({self.turns_left} turn{'s' * (self.turns_left != 1)} left)"
        name = self._tags["observation"]
        content = f"<{name}>\n{text}\n{turns}\n</{name}>"
        return Reply(observation=(Message(role="user", content=content),))

    def _judge(self, action: str, solution: str) -> Reply:
        """End the episode with what the solution earns."""
        golds = cast("Sequence[str]", self.task.answer["golds"])
        try:
            self._judged = judged = grade(solution, golds, self._database, self.rules)
        except BadGoldError as error:
            raise InfrastructureError(f"task {self.task.id}: {error}") from error
        outcome = self._score(golds[0], action)
        return Reply(
            reward=outcome.reward,
            done=True,
            success=judged.right,
            reward_terms=outcome.terms,
            metrics=self._metrics(judged.status),
        )

    def _execution_match(self, _ground_truth: str, _response: str) -> Outcome:
        """The entry of the reward list that stands for the env's own judgement."""
        return Outcome(float(self._judged.right is True), self._judged.right)

    def _metrics(self, status: str) -> dict[str, float]:
        """What the episode's actions were like, and what became of its solution."""
        solved = (
            {f"success/{self.task.data['kind']}": float(status == "right")} if "kind" in self.task.data else {}
        )
        counted = ("queries", "malformed", "trailing_text", *(f"queries_{kind}" for kind in FAILURE_KINDS))
        became = {f"solution_{known}": float(known == status) for known in ("none", *GRADE_STATUSES)}
        return {name: float(self._counts[name]) for name in counted} | became | solved

    def _defuse(self, text: str) -> str:
        return defuse(text, self._tags.values())

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        """Look at a table that the question needs, if there is a turn for it, and give the gold."""
        gold = cast("Sequence[str]", self.task.answer["golds"])[0]
        words = {token.value for token in tokens(gold)}
        tables = [name for name in table_names(self._database) if name.lower() in words]
        sql, solution = self._tags["sql"], self._tags["solution"]
        if self.max_turns > 1 and tables:
            table = show_name(tables[int(rng.integers(len(tables)))])
            yield f"I look at {table} first. <{sql}>SELECT * FROM {table} LIMIT 3</{sql}>"
        yield f"This answers it. <{solution}>{gold}</{solution}>"


def _complain(action: str, tag: Tag | None, tags: Mapping[str, str]) -> str:
    """What was wrong with an action that cannot be run."""
    if tag is not None:
        return f"Nothing stands between <{tag.name}> and </{tag.name}>."
    for name in (tags["sql"], tags["solution"]):
        if f"<{name}>" in action:
            return f"<{name}> is not closed: write </{name}> behind the query."
    return f"There is no query: write one between <{tags['sql']}> and </{tags['sql']}>, or the solution between \
<{tags['solution']}> and </{tags['solution']}>."


def _check_tags(**names: str) -> dict[str, str]:
    for name in names.values():
        check_tag_name(name)
    if len({name.lower() for name in names.values()}) < len(names):
        raise SetupError(f"the tag names {', '.join(names.values())} must differ")
    return names


def _at_least_one(name: str, value: int) -> int:
    if value < 1:
        raise SetupError(f"{name} is {value}; it must be at least 1")
    return value


def _find_source(
    tasks: str | None, eval_tasks: str | None, databases: str | None, layout: str, world_seed: int, perturb: bool
) -> TaskSource:
    if tasks is not None:
        return file_source(tasks, eval_tasks, databases, layout, perturb)
    if eval_tasks is not None or databases is not None:
        raise SetupError("eval_tasks and databases go with tasks; name a task file, or none of the three")
    return embedded_source(world_seed)
