"""``search``: look things up in a collection of documents, then answer.

    user       …the question…
    assistant  <search>who founded Arvel</search>
    user       <information>The guild Arvel was founded by Mirel.</information>
    assistant  <answer>Mirel</answer>

Without arguments it plays in the fictional world of ``envgym.worlds.search``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from envgym.env import Observation, Reply, Split, TextEnv
from envgym.envs.search_progress import SearchProgress
from envgym.errors import SetupError
from envgym.messages import Message, Task
from envgym.prompt import fill, load_prompt
from envgym.retrieval.choice import choose_retriever
from envgym.retrieval.corpus import Document, load_corpus
from envgym.reward_list import load_reward_list
from envgym.rewards.answer import exact_match
from envgym.rewards.outcome import Outcome, as_outcome
from envgym.tags import Tag, check_tag_name, defuse, first_tag
from envgym.task_file import load_tasks
from envgym.worlds.search import make_world

PROMPT = (
    "Answer the question. To look something up, write <{search}> words </{search}>; what is found comes back as "
    "<{information}> text </{information}>. To answer, write <{answer}> short answer </{answer}>. "
    "You have {max_turns} turns.\nQuestion: {question}"
)
_DEFAULT_REWARDS: tuple[Mapping[str, Any], ...] = ({"name": "exact_match"},)
_NO_OPTIONS: Mapping[str, Any] = {}
_NO_ANSWER = Outcome(0.0, None, "no_answer")


class SearchEnv(TextEnv):
    """Question answering with a search tool.

    A turn is one action: a search, or an answer, which earns its reward and ends the episode. What stands behind
    the first complete tag of an action is ignored. A search earns nothing unless ``format_weight`` or
    ``retrieval_weight`` say otherwise, and with them, too, nothing earns more than a right answer at once.
    """

    version = "1"
    isolation = "inline"
    deadline_s = 30.0

    def __init__(
        self,
        *,
        corpus: str | None = None,
        tasks: str | None = None,
        eval_tasks: str | None = None,
        retriever: str = "bm25",
        retriever_options: Mapping[str, Any] = _NO_OPTIONS,
        topk: int | None = None,
        max_turns: int = 4,
        split: Split = "train",
        world_seed: int = 0,
        max_document_characters: int = 2_000,
        prompt: str = PROMPT,
        search_tag: str = "search",
        information_tag: str = "information",
        answer_tag: str = "answer",
        rewards: Sequence[Mapping[str, Any]] = _DEFAULT_REWARDS,
        format_weight: float = 0.0,
        retrieval_weight: float = 0.0,
    ) -> None:
        """Set up the env; documents, index and tasks are loaded once per process.

        Args:
            corpus: JSON-lines file of ``{"id", "contents"}``, first line of contents = the quoted title. Without
                it the embedded world is played.
            tasks: JSON-lines file of ``{"id", "question", "answers"}``, or a dataset of such rows (see
                ``envgym.task_dataset``). One source serves both splits: a tenth of the tasks, by a hash of their
                ids, is for evaluation. Needed with ``corpus``.
            eval_tasks: file or dataset for the evaluation split.
            retriever: ``bm25``, ``dense``, or ``http``, which searches what its server has and takes no corpus.
            retriever_options: for ``http`` the fields of ``envgym.retrieval.http.HttpSettings``, ``url`` at least;
                for ``dense`` those of ``envgym.retrieval.dense.DenseSettings``.
            topk: documents per search. By default 1 in the embedded world, whose documents are single sentences,
                and 3 elsewhere.
            max_turns: turns of an episode, the answer's included.
            split: the tasks that ``reset`` draws from.
            world_seed: of the embedded world.
            max_document_characters: a longer document is cut there, and says so.
            prompt: text or file with the field ``{question}``; ``{max_turns}`` and the tag names ``{search}``,
                ``{information}`` and ``{answer}`` are filled in too.
            search_tag: name of the tag around a search.
            information_tag: name of the tag around what was found.
            answer_tag: name of the tag around the answer.
            rewards: what an answer earns: a list of ``{"name", "weight", "kwargs"}`` whose weighted mean counts;
                see ``envgym.reward_list``.
            format_weight: the part of the return that is for well-formed turns; see ``SearchProgress``. A turn is
                well-formed if it ends with its only action, which is not empty.
            retrieval_weight: the part that is for finding the task's supporting documents, told by their ids or
                titles. What remains is the answer's.

        Raises:
            SetupError: for a value out of range, a file that is missing or malformed, or an unknown name.
        """
        super().__init__(max_turns=max_turns, split=split)
        if topk is not None and topk < 1:
            raise SetupError(f"topk is {topk}; a search must return at least 1 document")
        if max_document_characters < 1:
            raise SetupError(f"max_document_characters is {max_document_characters}; it must be at least 1")
        if min(format_weight, retrieval_weight) < 0 or not format_weight + retrieval_weight < 1:
            raise SetupError(
                f"format_weight is {format_weight} and retrieval_weight {retrieval_weight}; "
                "they must be at least 0 and leave something for the answer"
            )
        if retriever == "http" and corpus is not None:
            raise SetupError("retriever 'http' searches what its server has; leave out corpus")
        self._tags = {
            "search": check_tag_name(search_tag),
            "information": check_tag_name(information_tag),
            "answer": check_tag_name(answer_tag),
        }
        if len(set(self._tags.values())) < len(self._tags):
            raise SetupError(f"the tags are {', '.join(self._tags.values())}; their names must differ")
        self.stop_strings = tuple(f"</{self._tags[name]}>" for name in ("search", "answer"))
        self._prompt = load_prompt(prompt)
        self._score = load_reward_list(rewards, {"answer_tag": answer_tag})
        self._weights = {"turn_format": format_weight, "retrieval": retrieval_weight}
        documents, self._tasks = _load_data(corpus, tasks, eval_tasks, max_turns, world_seed)
        self._retriever = choose_retriever(retriever, documents, retriever_options)
        if retriever != "bm25":
            self.isolation = "thread"  # it waits for a server, or computes for long, with a deadline of its own
        in_the_world = corpus is None and (retriever != "http" or tasks is None)
        self.topk = topk if topk is not None else 1 if in_the_world else 3
        self._max_characters = max_document_characters
        self._searches = 0
        self._queries: set[str] = set()
        self._progress = SearchProgress(max_turns)

    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split."""
        return self._tasks[split]

    def open(self, task: Task) -> Observation:
        """Ask the question."""
        self._searches = 0
        self._queries = set()
        needs_supporting = self._weights["retrieval"] > 0
        self._progress = SearchProgress.of(task, self.max_turns, needs_supporting=needs_supporting)
        # The question may come from anywhere; the prompt's own tags are the only ones in it.
        fields = {"question": self._defuse(str(task.data["question"])), "max_turns": self.max_turns, **self._tags}
        return (Message(role="user", content=fill(self._prompt, fields)),)

    def respond(self, action: str) -> Reply:
        """Search, or judge the answer."""
        tag = first_tag(action, (self._tags["search"], self._tags["answer"]))
        answers = tag is not None and tag.name == self._tags["answer"]
        form = self._progress.form(self.turn, well_formed=_ends_with(action, tag), answers=answers)
        if tag is None:
            return self._reply(self._explain(action), form=form)
        if answers:
            return self._judge(action[tag.start : tag.end], tag.content, form)
        text, findings = self._search(tag.content.strip())
        return self._reply(text, form=form, findings=findings)

    def _judge(self, tagged: str, answer: str, form: float) -> Reply:
        golds: Sequence[str] = self.task.answer["answers"]
        outcome = as_outcome(self._score(golds, tagged))
        right = exact_match(answer.strip(), golds) if outcome.verdict is None else outcome.verdict
        findings = self._progress.find_rest() if right else 0.0
        return self._reply(None, form=form, findings=findings, outcome=outcome, success=right)

    def _reply(
        self,
        text: str | None,
        *,
        form: float,
        findings: float = 0.0,
        outcome: Outcome = _NO_ANSWER,
        success: bool = False,
    ) -> Reply:
        """Go on with an observation, or end where there is none."""
        metrics = {"searches": float(self._searches)}
        if "kind" in self.task.data:
            metrics[f"success/{self.task.data['kind']}"] = float(success)
        shares = {"turn_format": form, "retrieval": findings}
        weighed = {name: shares[name] for name, weight in self._weights.items() if weight > 0}
        return Reply(
            observation=() if text is None else (Message(role="user", content=text),),
            reward=outcome.reward * (1 - sum(self._weights.values()))
            + sum(self._weights[name] * share for name, share in weighed.items()),
            done=text is None,
            success=success,
            reward_terms={**outcome.terms, **weighed},
            metrics=metrics,
        )

    def _search(self, query: str) -> tuple[str, float]:
        """What is found, as text, and the share of the supporting documents that it adds."""
        if not query:
            return self._information("The search was empty. Write the words to look for between the tags."), 0.0
        self._searches += 1
        if query in self._queries:
            return self._information("This search was made before and finds the same again. Try other words."), 0.0
        self._queries.add(query)
        documents = self._retriever.search(query, self.topk)
        if not documents:
            return self._information("Nothing was found. Try other words."), 0.0
        text = "\n".join(self._show(document) for document in documents)
        return self._information(text), self._progress.find(documents)

    def _show(self, document: Document) -> str:
        """One line for a document: its title, unless the text names it anyway, and the text."""
        text = " ".join(document.text.split())
        if len(text) > self._max_characters:
            text = f"{text[: self._max_characters]} [cut: {len(text) - self._max_characters} characters more]"
        named = not document.title or document.title in text
        return self._defuse(text if named else f"{document.title}: {text}")

    def _defuse(self, text: str) -> str:
        return defuse(text, self._tags.values())

    def _information(self, text: str) -> str:
        name = self._tags["information"]
        return f"<{name}>{text}</{name}>"

    def _explain(self, action: str) -> str:
        """Say what was wrong with an action that holds no complete tag."""
        search, answer = self._tags["search"], self._tags["answer"]
        opened = next((name for name in (search, answer) if f"<{name}>" in action), None)
        if opened is not None:
            return f"<{opened}> was opened and not closed. Close it with </{opened}>."
        return f"There was no action. Write <{search}> words </{search}> or <{answer}> answer </{answer}>."

    def demonstrate(self, rng: np.random.Generator) -> Iterator[str]:
        """Send the task's ``queries`` in order, then give its first answer.

        Raises:
            NotImplementedError: if the task does not say what to look for.
        """
        if "queries" not in self.task.answer:
            raise NotImplementedError("these tasks have no `queries`, so no scripted expert can play them")
        search, answer = self._tags["search"], self._tags["answer"]
        for query in self.task.answer["queries"]:
            yield f"<{search}> {query} </{search}>"
        yield f"<{answer}> {self.task.answer['answers'][0]} </{answer}>"


def _ends_with(action: str, tag: Tag | None) -> bool:
    """Whether an action ends with this tag and says something in it."""
    return tag is not None and bool(tag.content.strip()) and not action[tag.end :].strip()


def _load_data(
    corpus: str | None, tasks: str | None, eval_tasks: str | None, max_turns: int, world_seed: int
) -> tuple[tuple[Document, ...], Mapping[Split, Sequence[Task]]]:
    """Documents and tasks: from files, or of the embedded world."""
    if corpus is None and tasks is None and eval_tasks is None:
        world = make_world(world_seed)
        return world.documents, world.tasks
    if tasks is None:
        raise SetupError(
            "a corpus or eval_tasks was given without tasks; name a JSON-lines file or a dataset with env.tasks=…"
        )
    documents = load_corpus(corpus) if corpus is not None else make_world(world_seed).documents
    return documents, load_tasks(tasks, eval_tasks, max_turns)
