"""The envs keep their promises with other arguments than the default ones, too."""

from typing import Any

import pytest

from envgym import check_env
from envgym.checking import CheckFailed

SCORING = ["ends", "last_info", "reward_range", "garbage", "expert", "right_first", "injection", "ground_truth"]
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gsm8k in one turn": ("gsm8k", {"max_turns": 1, "level": 4}),
    "gsm8k, strict": ("gsm8k", {"strict": True}),
    "gsm8k, no cost of waiting": ("gsm8k", {"late_cost": 0.0, "format_score": 0.5}),
    "qa in three turns": ("qa", {"max_turns": 3}),
    "qa with F1": ("qa", {"max_turns": 3, "rewards": [{"name": "f1"}]}),
    "qa with other tags": ("qa", {"answer_tag": "final", "think_tag": "plan"}),
    "search that pays form and findings": ("search", {"format_weight": 0.2, "retrieval_weight": 0.3}),
    "search with F1": ("search", {"rewards": [{"name": "f1", "kwargs": {"mode": "squad"}}]}),
}


@pytest.mark.integration
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_keeps_the_promises_about_rewards_and_secrets(variant: str) -> None:
    name, arguments = VARIANTS[variant]
    check_env(name, arguments, only=SCORING)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:scheme 'per_turn_format' is exploitable")
def test_the_peers_scheme_is_caught_as_exploitable() -> None:
    with pytest.raises(CheckFailed, match="right_first"):
        check_env("gsm8k", {"scheme": "per_turn_format"}, only=["right_first"])
