import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgym import SetupError, make_env
from envgym.envs.search import SearchEnv

DOCUMENTS = {"a": "The guild Arvel was founded by Mirel.", "b": "Mirel is a baker.", "c": "Arvel is also a fish."}
TASK = {
    "id": "1",
    "question": "What is the job of the founder of Arvel?",
    "answers": ["baker"],
    "supporting_titles": ["a", "b"],
}


def make(folder: Path, task: dict[str, object] = TASK, **arguments: object) -> SearchEnv:
    corpus, tasks = folder / "corpus.jsonl", folder / "tasks.jsonl"
    corpus.write_text(
        "".join(json.dumps({"id": f"id-{t}", "contents": f'"{t}"\n{x}'}) + "\n" for t, x in DOCUMENTS.items())
    )
    tasks.write_text("".join(json.dumps({**task, "id": number}) + "\n" for number in range(3)))
    return SearchEnv(corpus=str(corpus), tasks=str(tasks), topk=1, **arguments)  # pyright: ignore[reportArgumentType]


def rewards(env: SearchEnv, *actions: str) -> list[float]:
    env.reset(seed=1)
    return [env.step(action)[1] for action in actions]


FOUNDED, BAKER, RIGHT = "<search>founded</search>", "<search>baker Mirel</search>", "<answer>baker</answer>"


def test_a_search_earns_nothing_by_default(tmp_path: Path) -> None:
    assert rewards(make(tmp_path), FOUNDED, BAKER, RIGHT) == [0.0, 0.0, 1.0]


def test_each_supporting_document_is_paid_when_it_is_found_first(tmp_path: Path) -> None:
    env = make(tmp_path, retrieval_weight=0.2)
    assert rewards(env, FOUNDED, FOUNDED, BAKER, RIGHT) == pytest.approx([0.1, 0.0, 0.1, 0.8])


def test_finding_the_wrong_document_earns_nothing_whatever_its_text(tmp_path: Path) -> None:
    env = make(tmp_path, task={**TASK, "supporting_titles": ["b"]}, retrieval_weight=0.2)
    assert rewards(env, "<search>fish</search>", "<search>founded Mirel</search>") == [0.0, 0.0]


def test_supporting_documents_may_be_named_by_id(tmp_path: Path) -> None:
    env = make(tmp_path, task={**TASK, "supporting_ids": ["id-a"]}, retrieval_weight=0.2)
    assert rewards(env, FOUNDED, BAKER, RIGHT) == pytest.approx([0.2, 0.0, 0.8])


def test_a_right_answer_at_once_earns_the_whole_return(tmp_path: Path) -> None:
    env = make(tmp_path, retrieval_weight=0.2, format_weight=0.1)
    assert rewards(env, RIGHT) == pytest.approx([1.0])


def test_the_form_of_each_turn_is_paid_and_a_malformed_turn_loses_its_share(tmp_path: Path) -> None:
    env = make(tmp_path, format_weight=0.4, max_turns=4)
    assert rewards(env, FOUNDED, "no tag", RIGHT) == pytest.approx([0.1, 0.0, 0.6 + 0.2])
    assert rewards(env, FOUNDED + " and more", "<search> </search>", "<answer>baker</answer>!") == pytest.approx(
        [0.0, 0.0, 0.6]
    )
    assert rewards(env, "<answer>fish</answer>") == pytest.approx([0.4])


def test_terms_are_reported_before_any_weight(tmp_path: Path) -> None:
    env = make(tmp_path, retrieval_weight=0.2, format_weight=0.1)
    env.reset(seed=1)
    assert env.step(FOUNDED)[4]["reward_terms"] == {"turn_format": 0.25, "retrieval": 0.5}
    assert env.step(RIGHT)[4]["reward_terms"] == {"exact_match": 1.0, "turn_format": 0.75, "retrieval": 0.5}


ACTIONS = st.sampled_from(
    [FOUNDED, BAKER, RIGHT, "<answer>fish</answer>", "", "<search></search>", "<answer>baker", RIGHT + FOUNDED]
)


@settings(max_examples=60, deadline=None)
@given(actions=st.lists(ACTIONS, min_size=1, max_size=4))
def test_nothing_earns_more_than_a_right_answer_at_once(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str]
) -> None:
    env = make(tmp_path_factory.mktemp("search"), retrieval_weight=0.3, format_weight=0.3)
    env.reset(seed=1)
    total = 0.0
    for action in actions:
        _, reward, terminated, _, _ = env.step(action)
        total += reward
        if terminated:
            break
    assert 0 <= total <= 1 + 1e-9


def test_f1_and_cover_match_can_be_chosen(tmp_path: Path) -> None:
    spoken = "<answer>she is a baker there</answer>"
    assert rewards(make(tmp_path, rewards=[{"name": "f1"}]), spoken) == pytest.approx([2 / 5])
    assert rewards(make(tmp_path, rewards=[{"name": "cover_match"}]), spoken) == [1.0]


def test_a_task_without_supporting_documents_cannot_be_paid_for_finding_them(tmp_path: Path) -> None:
    env = make(tmp_path, task={"question": "?", "answers": ["x"]}, retrieval_weight=0.2)
    with pytest.raises(SetupError, match="names no supporting_ids or supporting_titles"):
        env.reset(seed=1)


def test_weights_must_leave_something_for_the_answer() -> None:
    for weights in ({"format_weight": -0.1}, {"format_weight": 0.5, "retrieval_weight": 0.5}):
        with pytest.raises(SetupError, match="leave something for the answer"):
            make_env("search", **weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"retriever": "google"}, "unknown retriever 'google'; there are: bm25, dense, http"),
        ({"retriever": "http"}, "needs the option url"),
        ({"retriever": "bm25", "retriever_options": {"url": "x"}}, "'bm25' takes no options"),
        ({"retriever": "http", "retriever_options": {"url": "http://h", "port": 1}}, "takes no option 'port'"),
        ({"retriever": "http", "retriever_options": {"url": ["http://h"]}}, "must be a text or a number"),
        ({"retriever": "http", "corpus": "c.jsonl", "tasks": "t.jsonl"}, "leave out corpus"),
    ],
)
def test_a_retriever_that_cannot_be_had_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        make_env("search", **arguments)


def test_envs_of_one_process_share_their_retriever() -> None:
    first, second = make_env("search"), make_env("search")
    assert first._retriever is second._retriever
