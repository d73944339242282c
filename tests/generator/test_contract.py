from dataclasses import fields
from typing import get_args

import pytest

from envgym_generator import types
from envgym_generator.types import (
    FinishReason,
    GeneratorDescription,
    GeneratorInput,
    GeneratorOutput,
    Rollout,
    RolloutRequest,
    SamplingParams,
    Segment,
    Status,
    Turn,
    model_fingerprint,
)

FIELDS = {
    SamplingParams: "temperature top_p top_k min_p max_turn_tokens max_rollout_tokens stop append_eos_after_stop",
    RolloutRequest: "env split task_index sample_index seed",
    GeneratorInput: "requests sampling policy_version step purpose",
    Turn: "start end action observation reward reward_terms finish_reason stop_string policy_version",
    Segment: "prompt_ids completion_ids loss_mask rewards rollout_logprobs turns",
    Rollout: "request task_id messages segments status success metrics excluded_by error",
    GeneratorOutput: "rollouts sampling policy_version envs model_fingerprint metrics",
    GeneratorDescription: "num_tasks stop tokenizer_fingerprint eos_ids max_context_tokens",
}


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_contract_class_has_exactly_its_documented_fields_in_order(kind):
    assert " ".join(field.name for field in fields(kind)) == FIELDS[kind]


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_contract_class_is_frozen_slotted_and_keyword_only(kind):
    assert kind.__dataclass_params__.frozen
    assert "__slots__" in vars(kind)
    assert all(field.kw_only for field in fields(kind))


def test_words_of_the_contract_are_pinned():
    assert get_args(FinishReason) == ("stop", "length", "abort")
    assert get_args(Status) == ("terminated", "truncated_env", "truncated_tokens", "prompt_too_long", "failed")
    assert get_args(types.Purpose) == ("train", "eval")


def test_generator_protocol_has_four_methods():
    methods = [name for name in vars(types.Generator) if not name.startswith("_")]
    assert methods == ["describe", "generate", "update_weights", "close"]


def test_segment_of_unequal_lengths_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"loss_mask has 1 entries for 2 completion_ids"):
        Segment(
            prompt_ids=(1,), completion_ids=(2, 3), loss_mask=(True,), rewards=(0.0, 0.0),
            rollout_logprobs=None, turns=(),
        )  # fmt: skip


def test_training_with_top_p_is_refused():
    sampling = SamplingParams(
        temperature=1.0, top_p=0.9, top_k=0, min_p=0.0, max_turn_tokens=8, max_rollout_tokens=8, stop=(),
        append_eos_after_stop=True,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"top_p=0\.9"):
        GeneratorInput(requests=(), sampling=sampling, policy_version=0, step=1, purpose="train")


def test_fingerprint_depends_on_every_part_and_not_on_order():
    one = ("a", (2,), b"\0\0\0\0\0\0\0\0")
    two = ("b", (1,), b"\0\0\0\0")
    whole = model_fingerprint("{}", [one, two])
    assert whole == model_fingerprint("{}", [two, one])
    others = (
        model_fingerprint('{"x": 1}', [one, two]),
        model_fingerprint("{}", [one]),
        model_fingerprint("{}", [one, ("c", (1,), b"\0\0\0\0")]),
        model_fingerprint("{}", [one, ("b", (1, 1), b"\0\0\0\0")]),
        model_fingerprint("{}", [one, ("b", (1,), b"\0\0\0\1")]),
    )
    assert len({whole, *others}) == 6
