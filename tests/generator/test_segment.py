import numpy as np
import pytest

from envgym import Message
from envgym_generator.engines.protocol import TurnSample
from envgym_generator.segment import SegmentRecorder


def sampled(*ids: int, logprobs=None, stop_string=None, text: str = "a") -> TurnSample:
    return TurnSample(ids=ids, logprobs=logprobs, text=text, finish_reason="stop", stop_string=stop_string)


def record(prompt, *turns, logprobs: bool = True):
    """Turns are (sampled ids, reward, ids that follow)."""
    recorder = SegmentRecorder(prompt)
    for ids, reward, behind in turns:
        sample = sampled(*ids, logprobs=tuple(-0.5 for _ in ids) if logprobs else None)
        recorder.add_sampled(sample)
        recorder.reward_turn(sample, (), reward, {}, policy_version=4)
        recorder.add_context(behind)
    return recorder.segment()


def test_two_turns_of_four_ids_around_an_observation_of_two():
    segment = record([1], ([10, 11, 12, 4], 0.5, [20, 21]), ([10, 11, 12, 4], 0.25, []))
    assert segment.completion_ids == (10, 11, 12, 4, 20, 21, 10, 11, 12, 4)
    assert segment.rewards == (0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0.25)
    assert segment.loss_mask == (True,) * 4 + (False,) * 2 + (True,) * 4


def test_turn_that_ended_by_a_stop_string_is_followed_by_its_closing_token():
    segment = record([1], ([1, 10, 12], 1.0, [4]))
    assert segment.completion_ids == (1, 10, 12, 4)
    assert segment.loss_mask == (True, True, True, False)
    assert segment.rewards == (0, 0, 1.0, 0)
    assert segment.rollout_logprobs == (-0.5, -0.5, -0.5, 0.0)


def test_turns_know_where_their_ids_are():
    segment = record([1], ([10, 4], 0.5, [20]), ([11, 12], 0.0, [4]))
    assert [(turn.start, turn.end, turn.policy_version) for turn in segment.turns] == [(0, 2, 4), (3, 5, 4)]


def test_segment_with_a_scripted_turn_has_no_logprobs():
    assert record([1], ([10, 4], 0.5, []), logprobs=False).rollout_logprobs is None


def test_logprobs_are_rounded_to_float32():
    recorder = SegmentRecorder([1])
    recorder.add_sampled(sampled(10, logprobs=(-0.1,)))
    (logprob,) = recorder.segment().rollout_logprobs
    assert logprob == float(np.float32(-0.1)) != -0.1


def test_turn_keeps_action_observation_and_reward_terms():
    recorder = SegmentRecorder([1])
    sample = sampled(10, 4, text="said", stop_string="d")
    recorder.add_sampled(sample)
    reply = (Message(role="user", content="heard"),)
    recorder.reward_turn(sample, reply, 0.5, {"em": 0.5}, policy_version=0)
    (turn,) = recorder.segment().turns
    assert (turn.action, turn.observation, turn.reward_terms, turn.stop_string) == (
        "said",
        reply,
        {"em": 0.5},
        "d",
    )


def test_length_counts_prompt_and_completion():
    recorder = SegmentRecorder([1, 2, 3])
    recorder.add_sampled(sampled(10, 4))
    recorder.add_context([20])
    assert len(recorder) == 6
    assert recorder.ids == (1, 2, 3, 10, 4, 20)


def test_number_of_logprobs_must_be_that_of_the_ids():
    with pytest.raises(ValueError, match="1 logprobs for 2 ids"):
        SegmentRecorder([1]).add_sampled(sampled(10, 4, logprobs=(-0.5,)))
