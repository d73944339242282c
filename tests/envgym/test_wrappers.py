"""The wrappers: transcripts, weighted reward terms, and observations cut inside their tags."""

import json
import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from envgym import Message, Reply, SetupError, Task, TextEnv
from envgym.env import Observation, Split
from envgym.messages import ImagePart, TextPart
from envgym.wrappers import ObservationBudget, RecordTranscript, ShapeReward, cut, cut_message, shares


class Library(TextEnv):
    """Shows a long book; a short action pays for its form, ``yes`` for the answer."""

    isolation = "inline"

    def __init__(self, book: str = "a book") -> None:
        super().__init__(max_turns=2)
        self.book = book

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(id=f"{split}-0", data={}, answer={"word": "yes"})]

    def open(self, task: Task) -> Observation:
        return (Message(role="user", content="Read." + "." * 500),)

    def respond(self, action: str) -> Reply:
        terms = {"answer": float(action == "yes"), "form": 0.25}
        return Reply(
            observation=(Message(role="user", content=f"<book>{self.book}</book>"),),
            reward=sum(terms.values()) / 2.5,
            success=action == "yes",
            reward_terms={name: value / 2.5 for name, value in terms.items()},
        )


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_transcript_holds_messages_rewards_and_outcome_of_each_episode(tmp_path: Path) -> None:
    env = RecordTranscript(Library(), tmp_path / "episodes.jsonl")
    env.reset(seed=7)
    env.step("no")
    env.step("yes")

    (line,) = lines_of(tmp_path / "episodes.jsonl")

    assert [message["role"] for message in line["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert line["messages"][3]["content"] == "yes"
    assert line["rewards"] == pytest.approx([0.1, 0.5])
    assert line["return"] == pytest.approx(0.6)
    assert (line["task_id"], line["seed"], line["success"], line["ended"]) == ("train-0", 7, True, True)
    assert line["reward_terms"][1] == pytest.approx({"answer": 0.4, "form": 0.1})


def test_abandoned_episode_is_written_by_the_next_reset_and_by_close(tmp_path: Path) -> None:
    env = RecordTranscript(Library(), tmp_path / "episodes.jsonl")
    env.reset(seed=1)
    env.step("no")
    env.reset(seed=2)
    env.close()

    assert [
        (line["seed"], line["ended"], len(line["rewards"])) for line in lines_of(tmp_path / "episodes.jsonl")
    ] == [
        (1, False, 1),
        (2, False, 0),
    ]


def test_transcript_of_an_action_that_utf8_cannot_hold_is_written(tmp_path: Path) -> None:
    env = RecordTranscript(Library(), tmp_path / "episodes.jsonl")
    env.reset(seed=1)
    env.step("half \ud800")
    env.close()

    assert lines_of(tmp_path / "episodes.jsonl")[0]["messages"][1]["content"] == "half \ud800"


def test_transcript_in_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot write transcripts"):
        RecordTranscript(Library(), tmp_path / "missing" / "episodes.jsonl")


def test_transcript_never_holds_the_ground_truth(tmp_path: Path) -> None:
    env = RecordTranscript(Library(), tmp_path / "episodes.jsonl")
    env.reset(seed=1)
    env.close()

    assert "yes" not in (tmp_path / "episodes.jsonl").read_text()


def test_weighted_terms_count_as_often_as_their_weight_says() -> None:
    env = ShapeReward(Library(), {"form": 0.0, "answer": 2.0})
    env.reset(seed=1)

    # The env pays 0.4 for the answer and 0.1 for the form: 2 * 0.4 + 0 * 0.1.
    assert env.step("yes")[1] == pytest.approx(0.8)


def test_term_that_never_occurs_is_warned_about_once_an_episode_is_over() -> None:
    env = ShapeReward(Library(), {"fluency": 2.0})
    env.reset(seed=1)
    env.step("no")

    with pytest.warns(UserWarning, match=r"no reward term fluency; its last terms: \['answer', 'form'\]"):
        env.step("no")
    env.reset(seed=2)
    env.step("no")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.step("no")


def test_observation_is_cut_inside_its_tag_and_says_so() -> None:
    env = ObservationBudget(Library("word " * 1_000), max_characters=200)
    opening, _ = env.reset(seed=1)
    observation = env.step("no")[0]

    text = observation[0].text
    assert len(text) <= 200
    assert text.startswith("<book>word word")
    assert text.endswith("of 5000 characters shown]</book>")
    assert len(opening[0].text) == 505, "the task itself is never cut"


def test_observation_within_its_budget_is_left_alone() -> None:
    env = ObservationBudget(Library("short"), max_characters=100)
    env.reset(seed=1)

    assert env.step("no")[0][0].text == "<book>short</book>"


@pytest.mark.parametrize("budget", [100, 150, 333, 1_000])
def test_every_tag_that_is_kept_still_closes_within_the_budget(budget: int) -> None:
    text = "Found: " + "\n".join(f"<hit>{'x' * 100 * number}</hit>" for number in range(40))

    short = cut(text, budget)

    assert len(short) <= budget
    assert short.count("<hit>") == short.count("</hit>")
    assert "[cut: " in short


def test_tags_that_never_close_are_cut_as_words() -> None:
    assert len(cut("<a>" * 5_000, 120)) <= 120


def test_cutting_takes_linear_time_however_many_openers_stay_open() -> None:
    text = "".join(f"<t{number}>" for number in range(60_000))

    assert len(cut(text, 500)) <= 500


def test_budget_is_shared_between_messages_so_that_short_ones_stay_whole() -> None:
    assert shares([10, 1_000, 30, 1_000], 240) == [10, 100, 30, 100]


def test_image_in_a_message_survives_the_cut_of_its_text() -> None:
    image = ImagePart(media_type="image/png", data=b"png")
    message = Message(role="user", content=(TextPart(text="y" * 900), image))

    short = cut_message(message, 100)

    assert len(short.text) <= 100
    assert short.content[1] == image


def test_budget_too_small_to_say_what_was_cut_is_refused() -> None:
    with pytest.raises(SetupError, match="max_characters is 10; it must be at least 100"):
        ObservationBudget(Library(), max_characters=10)


def test_wrappers_stack_pickle_and_show_the_env_below(tmp_path: Path) -> None:
    env = RecordTranscript(ObservationBudget(ShapeReward(Library(), {}), 100), tmp_path / "episodes.jsonl")

    copy = pickle.loads(pickle.dumps(env))

    assert isinstance(copy.unwrapped, Library)
    assert copy.get_wrapper_attr("max_turns") == 2
    assert isinstance(copy, gymnasium.Wrapper)
