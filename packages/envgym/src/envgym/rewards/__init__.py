"""Rewards: functions ``f(ground_truth, response, **kwargs) -> (reward, verdict)``.

The pair that they return is an `Outcome`, which also says how it came about. Nothing heavy is imported here:
computer algebra is loaded in the grading processes only.
"""

from envgym.errors import BadGoldError
from envgym.rewards.bbox import bbox_giou_reward
from envgym.rewards.combine import CombinedReward, combine_reward_functions
from envgym.rewards.exact_alphanumeric import exact_answer_alphanumeric_reward
from envgym.rewards.execution import execution_match_reward
from envgym.rewards.final_number import final_number_reward
from envgym.rewards.format import format_reward
from envgym.rewards.geo3k import geo3k_reward
from envgym.rewards.grading.pool import configure_grading
from envgym.rewards.math_expression import math_expression_reward
from envgym.rewards.outcome import Outcome, RewardFunction, Status, as_outcome
from envgym.rewards.registry import load_reward, reward_names
from envgym.rewards.short_answer import cover_match_reward, exact_match_reward, f1_reward

__all__ = [
    "BadGoldError",
    "CombinedReward",
    "Outcome",
    "RewardFunction",
    "Status",
    "as_outcome",
    "bbox_giou_reward",
    "combine_reward_functions",
    "configure_grading",
    "cover_match_reward",
    "exact_answer_alphanumeric_reward",
    "exact_match_reward",
    "execution_match_reward",
    "f1_reward",
    "final_number_reward",
    "format_reward",
    "geo3k_reward",
    "load_reward",
    "math_expression_reward",
    "reward_names",
]
