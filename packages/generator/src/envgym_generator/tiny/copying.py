"""The first phase: runs of tokens that come twice, on which a model learns to copy what it has seen before."""

import numpy as np

from envgym_generator.types import GeneratorOutput, Message, Rollout, RolloutRequest, SamplingParams, Segment, Turn


def copying_output(
    tokens: list[int], count: int, rng: np.random.Generator, sampling: SamplingParams
) -> GeneratorOutput:
    """Make ``count`` sequences ``run, other, run`` of random ``tokens``.

    The loss mask is True on the second run from its second token on: exactly what the first run predicts.
    """
    rollouts = tuple(_copying_rollout(index, tokens, rng) for index in range(count))
    return GeneratorOutput(
        rollouts=rollouts, sampling=sampling, policy_version=0, envs={}, model_fingerprint="", metrics={}
    )


def _copying_rollout(index: int, tokens: list[int], rng: np.random.Generator) -> Rollout:
    run = rng.choice(tokens, size=int(rng.integers(3, 11))).tolist()
    other = rng.choice(tokens, size=int(rng.integers(0, 21))).tolist()
    prompt, completion = (*run, *other, run[0]), tuple(run[1:])
    length = len(completion)
    turn = Turn(
        start=0, end=length, action="", observation=(), reward=0.0, reward_terms={},
        finish_reason="stop", stop_string=None, policy_version=0,
    )  # fmt: skip
    segment = Segment(
        prompt_ids=prompt, completion_ids=completion, loss_mask=(True,) * length, rewards=(0.0,) * length,
        rollout_logprobs=None, turns=(turn,),
    )  # fmt: skip
    return Rollout(
        request=RolloutRequest(env="copying", split="train", task_index=index, sample_index=0, seed=index),
        task_id=f"copying-{index}",
        messages=(Message(role="user", content="Repeat the run."),),
        segments=(segment,),
        status="terminated",
        success=None,
        metrics={},
        excluded_by=None,
        error=None,
    )
