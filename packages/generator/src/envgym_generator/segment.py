"""Token bookkeeping of one segment: what was sampled, what was put between, and which reward sits where."""

from collections.abc import Mapping, Sequence

import numpy as np

from envgym_generator.engines.protocol import TurnSample
from envgym_generator.types import Message, Segment, Turn


class SegmentRecorder:
    """Collects a segment id by id. A turn is ``add_sampled``, then ``reward_turn``, then ``add_context``.

    >>> recorder = SegmentRecorder([1, 2])
    >>> sample = TurnSample(ids=(5, 4), logprobs=None, text="a", finish_reason="stop", stop_string=None)
    >>> recorder.add_sampled(sample)
    >>> recorder.reward_turn(sample, (), 0.5, {}, policy_version=0)
    >>> recorder.add_context([9])
    >>> recorder.segment().rewards
    (0.0, 0.5, 0.0)
    """

    def __init__(self, prompt_ids: Sequence[int]) -> None:
        """Start behind a prompt."""
        self._prompt_ids = tuple(prompt_ids)
        self._completion_ids: list[int] = []
        self._loss_mask: list[bool] = []
        self._rewards: list[float] = []
        self._logprobs: list[float] = []
        self._turns: list[Turn] = []
        self._turn_start = 0
        self._scripted = False

    def __len__(self) -> int:
        """Prompt and completion ids so far."""
        return len(self._prompt_ids) + len(self._completion_ids)

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and completion ids so far, [P + C]."""
        return self._prompt_ids + tuple(self._completion_ids)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns that are complete."""
        return tuple(self._turns)

    def add_sampled(self, sample: TurnSample) -> None:
        """Append the sampled ids of a turn, mask True.

        Raises:
            ValueError: if there are log-probabilities, and not one for each id.
        """
        if sample.logprobs is not None and len(sample.logprobs) != len(sample.ids):
            raise ValueError(f"an engine gave {len(sample.logprobs)} logprobs for {len(sample.ids)} ids")
        self._turn_start = len(self._completion_ids)
        self._extend(sample.ids, trained=True, logprobs=sample.logprobs)
        self._scripted |= sample.logprobs is None

    def reward_turn(
        self,
        sample: TurnSample,
        observation: tuple[Message, ...],
        reward: float,
        reward_terms: Mapping[str, float],
        policy_version: int,
    ) -> None:
        """Complete the turn just sampled; its reward goes on its last sampled id."""
        end = self._turn_start + len(sample.ids)
        self._rewards[end - 1] = reward
        self._turns.append(
            Turn(
                start=self._turn_start,
                end=end,
                action=sample.text,
                observation=observation,
                reward=reward,
                reward_terms=reward_terms,
                finish_reason=sample.finish_reason,
                stop_string=sample.stop_string,
                policy_version=policy_version,
            )
        )

    def add_context(self, ids: Sequence[int]) -> None:
        """Append ids that were not sampled (closing tokens, glue, an observation), mask False."""
        self._extend(ids, trained=False, logprobs=None)

    def _extend(self, ids: Sequence[int], *, trained: bool, logprobs: Sequence[float] | None) -> None:
        self._completion_ids += ids
        self._loss_mask += [trained] * len(ids)
        self._rewards += [0.0] * len(ids)
        self._logprobs += [0.0] * len(ids) if logprobs is None else np.asarray(logprobs, dtype=np.float32).tolist()

    def segment(self) -> Segment:
        """The segment as it stands."""
        return Segment(
            prompt_ids=self._prompt_ids,
            completion_ids=tuple(self._completion_ids),
            loss_mask=tuple(self._loss_mask),
            rewards=tuple(self._rewards),
            rollout_logprobs=None if self._scripted else tuple(self._logprobs),
            turns=tuple(self._turns),
        )
