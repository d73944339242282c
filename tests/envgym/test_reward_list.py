import pytest

from envgym import SetupError
from envgym.reward_list import best_outcome, load_reward_list
from envgym.rewards import exact_answer_alphanumeric_reward


def half(ground_truth: str, response: str) -> tuple[float, bool | None]:
    return 0.5, None


def test_weights_are_shares_and_terms_carry_the_names_of_the_entries() -> None:
    score = load_reward_list([{"name": "format", "weight": 1}, {"name": "exact_alnum", "weight": 3}])
    outcome = score("cube", "<think>hm</think><answer>cube</answer>")
    assert outcome == (1.0, True)
    assert outcome.terms == {"format": 1.0, "exact_alnum": 1.0}


def test_defaults_reach_the_functions_that_take_them_unless_their_entry_says_otherwise() -> None:
    score = load_reward_list(
        [{"name": "exact_alnum"}, {"name": "format", "kwargs": {"answer_tag": "final"}}],
        defaults={"answer_tag": "out", "strict": True},
    )
    assert score("cube", "<out>cube</out><final>x</final>").terms == {"exact_alnum": 1.0, "format": 0.75}


def test_the_best_of_several_accepted_answers_counts() -> None:
    outcome = best_outcome(exact_answer_alphanumeric_reward, ["ball", "cube"], "<answer>cube</answer>")
    assert outcome == (1.0, True)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "must be a list"),
        ("exact_alnum", "must be a list"),
        ({"name": "format"}, "must be a list"),
        ([{"weight": 1}], "must have a name"),
        ([{"name": "format", "wieght": 1}], "must have a name"),
        ([{"name": "nothing"}], "unknown reward 'nothing'"),
        ([{"name": "format", "kwargs": {"tag": "x"}}], "takes no .*'tag'"),
        ([{"name": "format", "weight": -1}], "weight of reward 'format' is -1"),
        ([{"name": "format", "weight": "1"}], "weight of reward 'format' is '1'"),
        ([{"name": "format", "weight": float("nan")}], "weight of reward 'format' is nan"),
        ([{"name": "format", "weight": 0}], "every weight is 0"),
        ([{"name": "format"}, {"name": "format"}], "holds a name twice"),
    ],
)
def test_a_wrong_list_is_refused_with_the_reason(entries: list[dict[str, object]], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        load_reward_list(entries)
