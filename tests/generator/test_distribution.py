from dataclasses import replace

import pytest
import torch

from envgym_generator.engines.distribution import draw, sampled_distribution
from envgym_generator.types import SamplingParams

SAMPLING = SamplingParams(
    temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_turn_tokens=8, max_rollout_tokens=64, stop=(),
    append_eos_after_stop=True,
)  # fmt: skip
PROBABILITIES = torch.tensor([[0.1, 0.4, 0.2, 0.3]])


def probabilities(**changes) -> list[float]:
    return sampled_distribution(PROBABILITIES.log(), replace(SAMPLING, **changes)).exp()[0].tolist()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [0.1, 0.4, 0.2, 0.3]),
        # Squared and divided by their sum, .01 + .16 + .04 + .09 = .3.
        ({"temperature": 0.5}, [0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3]),
        ({"temperature": 0.0}, [0, 1, 0, 0]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_k": 9}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_p": 0.65}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.75}, [0, 4 / 9, 2 / 9, 3 / 9]),
        ({"top_p": 0.0}, [0, 1, 0, 0]),
        ({"min_p": 0.6}, [0, 4 / 7, 0, 3 / 7]),
        # 3 of the best by top-k, of which .4 + .3 of .9 are at least .7.
        ({"top_k": 3, "top_p": 0.7}, [0, 4 / 7, 0, 3 / 7]),
    ],
)
def test_filters_leave_the_expected_distribution(changes, expected):
    assert probabilities(**changes) == pytest.approx(expected, abs=1e-6)


def test_draw_inverts_the_cumulative_distribution():
    uniforms = torch.tensor([0.0, 0.0999, 0.1001, 0.4999, 0.5001, 0.7001, 0.99999])
    tokens = draw(PROBABILITIES.log().expand(len(uniforms), -1), uniforms)
    assert tokens.tolist() == [0, 0, 1, 1, 2, 3, 3]


def test_token_without_probability_is_never_drawn():
    logprobs = torch.tensor([[-torch.inf, 0.0, -torch.inf]]).expand(3, -1)
    assert draw(logprobs, torch.tensor([0.0, 0.5, 1.0 - 2**-53], dtype=torch.float64)).tolist() == [1, 1, 1]


def test_draws_have_the_distribution_s_frequencies():
    uniforms = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    counts = draw(PROBABILITIES.log().expand(20_000, -1), uniforms).bincount(minlength=4)
    assert (counts / 20_000).tolist() == pytest.approx(PROBABILITIES[0].tolist(), abs=0.015)
