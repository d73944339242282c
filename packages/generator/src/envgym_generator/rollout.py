"""One rollout, from the task's first message to the end, with every token in its place."""

import math
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from envgym import Message, SetupError
from envgym_generator.chat import ChatError, ChatFormat
from envgym_generator.engines.protocol import TurnRequest, TurnSample
from envgym_generator.env_host import RolloutFailure, Seat, Step
from envgym_generator.metrics import Played
from envgym_generator.seeds import derive_seed
from envgym_generator.segment import SegmentRecorder
from envgym_generator.types import Rollout, RolloutRequest, SamplingParams, Status

Sampler = Callable[[TurnRequest], Awaitable[TurnSample]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What holds for every rollout of a step."""

    sampling: SamplingParams
    stop: tuple[str, ...]
    """The env's stop strings and the config's."""
    max_context_tokens: int
    policy_version: int


async def play(request: RolloutRequest, seat: Seat, sample: Sampler, chat: ChatFormat, rules: Rules) -> Played:
    """Play one rollout. Whatever breaks in it ends it as ``failed``; its seat is given back in any case.

    A ``SetupError`` is no fault of the rollout and is raised.
    """
    playing = _Playing(request, seat, sample, chat, rules)
    try:
        return playing.finished(await playing.run())
    except SetupError:
        raise
    except RolloutFailure as failure:
        return playing.failed(failure.kind, failure.report)
    except ChatError as error:
        return playing.failed("chat", f"the chat template cannot write this conversation: {error}")
    except Exception as error:
        return playing.failed("internal", "".join(traceback.format_exception(error)))
    finally:
        await seat.close()


class _Playing:
    """A rollout under way."""

    def __init__(
        self, request: RolloutRequest, seat: Seat, sample: Sampler, chat: ChatFormat, rules: Rules
    ) -> None:
        self._request = request
        self._seat = seat
        self._sample = sample
        self._chat = chat
        self._rules = rules
        self._task_id = ""
        self._messages: list[Message] = []
        self._recorder: SegmentRecorder | None = None
        self._unjudged: TurnSample | None = None
        self._num_sampled = 0
        self._success: bool | None = None
        self._metrics: dict[str, float] = {}

    async def run(self) -> Status:
        """Play to the end, and say how it ended."""
        opening = await self._seat.reset(self._request.split, self._request.task_index, self._request.seed)
        self._task_id = opening.task_id
        self._messages += opening.messages
        recorder = SegmentRecorder(self._chat.prompt_ids(opening.messages))
        if not self._fits(len(recorder)):
            return "prompt_too_long"
        self._recorder = recorder
        turn = 0
        while True:
            sample = await self._sample_turn(recorder, turn)
            step = await self._seat.step(sample.text)
            self._judge(recorder, sample, step)
            if step.terminated or step.truncated:
                self._note_end(step)
                self._close(recorder, sample)
                return "terminated" if step.terminated else "truncated_env"
            following = self._chat.continuation_ids(sample.ids, step.observation, close=self._closes(sample))
            if not self._fits(len(recorder) + len(following)):
                self._close(recorder, sample)
                return "truncated_tokens"
            recorder.add_context(following)
            turn += 1

    def _fits(self, fed: int) -> bool:
        """Whether a turn may be fed this many ids, with room for one more."""
        return fed <= self._rules.sampling.max_rollout_tokens and fed < self._rules.max_context_tokens

    async def _sample_turn(self, recorder: SegmentRecorder, turn: int) -> TurnSample:
        room = self._rules.max_context_tokens - len(recorder)
        sample = await self._sample(
            TurnRequest(
                rollout=self._request,
                turn=turn,
                prompt_ids=recorder.ids,
                max_tokens=min(self._rules.sampling.max_turn_tokens, room),
                stop=self._rules.stop,
                sampling=self._rules.sampling,
                seed=derive_seed(self._request.seed, turn),
                demonstrate=self._seat.demonstrate,
            )
        )
        if not sample.ids or sample.finish_reason == "abort":
            raise RolloutFailure("engine_abort", f"the engine gave up on turn {turn} after {len(sample.ids)} ids")
        recorder.add_sampled(sample)
        self._num_sampled += len(sample.ids)
        self._unjudged = sample
        return sample

    def _judge(self, recorder: SegmentRecorder, sample: TurnSample, step: Step) -> None:
        if not math.isfinite(step.reward):
            raise RolloutFailure(
                "bad_reward", f"the env gave the reward {step.reward} for the action {sample.text!r}"
            )
        terms = {name: float(value) for name, value in step.info.get("reward_terms", {}).items()}
        recorder.reward_turn(sample, step.observation, step.reward, terms, self._rules.policy_version)
        self._unjudged = None
        self._messages.append(Message(role="assistant", content=sample.text))
        self._messages += step.observation

    def _closes(self, sample: TurnSample) -> bool:
        return sample.stop_string is None or self._rules.sampling.append_eos_after_stop

    def _close(self, recorder: SegmentRecorder, sample: TurnSample) -> None:
        """Close the last turn as the template does."""
        if self._closes(sample):
            recorder.add_context(self._chat.closing_ids(sample.ids))

    def _note_end(self, step: Step) -> None:
        self._success = step.info.get("success")
        self._metrics = {name: float(value) for name, value in step.info.get("metrics", {}).items()}

    def finished(self, status: Status) -> Played:
        """The rollout that ended with this status."""
        return self._played(status, error=None, kind=None)

    def failed(self, kind: str, report: str) -> Played:
        """The rollout as far as it came. A turn that was sampled and never judged earns nothing."""
        if self._recorder is not None and self._unjudged is not None:
            self._recorder.reward_turn(self._unjudged, (), 0.0, {}, self._rules.policy_version)
        return self._played("failed", error=report, kind=kind)

    def _played(self, status: Status, *, error: str | None, kind: str | None) -> Played:
        sampled = self._recorder is not None and bool(self._recorder.turns)
        rollout = Rollout(
            request=self._request,
            task_id=self._task_id,
            messages=tuple(self._messages),
            segments=(self._recorder.segment(),) if self._recorder is not None and sampled else (),
            status=status,
            success=self._success,
            metrics=self._metrics,
            excluded_by=None,
            error=error,
        )
        return Played(rollout=rollout, num_sampled=self._num_sampled, failure_kind=kind)
