"""The generator: envs, an engine and a chat template, put together to play what a trainer asks for."""

import asyncio
import inspect
import logging
import os
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast

from transformers import PreTrainedTokenizerBase

from envgym import SetupError
from envgym_generator.barrier import TurnBarrier
from envgym_generator.chat import ChatFormat
from envgym_generator.dotted_path import load_attribute
from envgym_generator.engines.protocol import Engine, TurnRequest, TurnSample
from envgym_generator.env_setup import prepare_env
from envgym_generator.metrics import Played, batch_metrics
from envgym_generator.model_files import load_tokenizer, max_context_tokens, tokenizer_fingerprint
from envgym_generator.rollout import Rules, play
from envgym_generator.types import (
    GeneratorDescription,
    GeneratorInput,
    GeneratorOutput,
    InfrastructureError,
    RolloutRequest,
)

Result = TypeVar("Result")
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What ``build_rollout_generator`` is given, as plain data."""

    envs: Mapping[str, Mapping[str, Any]]
    """By name: ``{"arguments": {...}}``; a trainer's ``weight`` may stand beside it."""
    engine: Mapping[str, Any]
    """``{"target": "package.module:build_engine", "args": {...}}``; see ``engines.protocol.Engine``."""
    model: str
    """Model folder or hub name; its tokenizer encodes."""
    seed: int = 0
    """Not drawn from: each request brings its own seed."""
    deterministic: bool = True
    """Whether rollouts meet at turn barriers and are sampled in a fixed order."""
    max_failed_share: float = 0.5
    """Failed rollouts ÷ all of a step, above which ``generate`` raises."""
    history: str = "chat"
    """How turns become one sequence: ``chat`` appends them as the chat template does."""
    on_rewrite: str = "refuse"
    """What to do with a template that rewrites earlier turns: ``refuse`` it at the start."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Variables of the chat template, such as ``enable_thinking`` or ``date_string``."""
    isolation: Mapping[str, str] | None = None
    """By env: ``inline``, ``thread`` or ``process``, where the choice of its class is not wanted."""
    env_workers: int = field(default_factory=lambda: max(1, os.cpu_count() or 1))
    """Processes per env that is played in processes."""

    def __post_init__(self) -> None:
        if self.history != "chat":
            raise SetupError(f"generator.history={self.history} is unknown; there is: chat")
        if self.on_rewrite != "refuse":
            raise SetupError(f"generator.on_rewrite={self.on_rewrite} is unknown; there is: refuse")
        if not 0 <= self.max_failed_share <= 1:
            raise SetupError(f"generator.max_failed_share={self.max_failed_share} must lie between 0 and 1")
        for name in self.isolation or {}:
            if name not in self.envs:
                raise SetupError(f"generator.isolation names env {name!r}; the envs are: {', '.join(self.envs)}")


def build_rollout_generator(config: Mapping[str, Any]) -> "RolloutGenerator":
    """Build a generator. Envs are checked here; no model is loaded yet.

    Args:
        config: the fields of ``Settings``. A trainer passes its whole ``generator`` section: ``target`` is not
            read, and keys that only other generators know must be None.

    Raises:
        SetupError: for an unknown key, an env that cannot be built from its arguments, or an unknown engine.
    """
    known = [field.name for field in fields(Settings)]
    for name, value in config.items():
        if name not in (*known, "target") and value is not None:
            raise SetupError(f"generator.{name}={value} is unknown; there is: {', '.join(known)}")
    return RolloutGenerator(Settings(**{name: value for name, value in config.items() if name in known}))


class RolloutGenerator:
    """See ``envgym_generator.types.Generator``."""

    def __init__(self, settings: Settings) -> None:
        """Build the envs; the tokenizer and the engine are loaded when they are needed."""
        self._settings = settings
        self._envs = {
            name: prepare_env(
                name, entry.get("arguments") or {}, (settings.isolation or {}).get(name), settings.env_workers
            )
            for name, entry in settings.envs.items()
        }
        self._build_engine = load_attribute(settings.engine["target"], "engine.target")
        self._runner = asyncio.Runner()
        self._chat: tuple[PreTrainedTokenizerBase, ChatFormat] | None = None
        self._engine: Engine | None = None
        self._version: int | None = None
        self._warned_of_open_turns = False

    def describe(self) -> GeneratorDescription:
        """Say what there is to play. Loads the tokenizer, and no model.

        Raises:
            SetupError: if the tokenizer or its chat template cannot be used.
        """
        tokenizer, chat = self._load_chat()
        return GeneratorDescription(
            num_tasks={name: env.num_tasks for name, env in self._envs.items()},
            stop=tuple(dict.fromkeys(stop for env in self._envs.values() for stop in env.stop_strings)),
            tokenizer_fingerprint=tokenizer_fingerprint(tokenizer),
            eos_ids=_eos_ids(tokenizer, chat),
            max_context_tokens=max_context_tokens(self._settings.model),
        )

    def generate(self, generator_input: GeneratorInput) -> GeneratorOutput:
        """Play every request.

        Raises:
            ValueError: if the weights are not those of the requested version, or an env is unknown.
            InfrastructureError: if more than ``max_failed_share`` of the rollouts failed; has the first traceback.
        """
        self._check(generator_input)
        _, chat = self._load_chat()
        engine = self._load_engine()
        played = self._run(self._play_all(generator_input, engine, chat))
        self._report_failures(played)
        return GeneratorOutput(
            rollouts=tuple(one.rollout for one in played),
            sampling=generator_input.sampling,
            policy_version=generator_input.policy_version,
            envs={name: env.describe() for name, env in self._envs.items()},
            model_fingerprint=engine.describe().model_fingerprint,
            metrics=batch_metrics(played),
        )

    def _check(self, generator_input: GeneratorInput) -> None:
        version = generator_input.policy_version
        if self._version not in (None, version):
            raise ValueError(f"asked to play with version {version}, and the engine has {self._version}")
        for request in generator_input.requests:
            if request.env not in self._envs:
                raise ValueError(f"asked to play env {request.env!r}; the envs are: {', '.join(self._envs)}")
        if not generator_input.sampling.append_eos_after_stop and not self._warned_of_open_turns:
            self._warned_of_open_turns = True
            log.warning(
                "append_eos_after_stop=false: turns that end by a stop string are not closed as the chat template "
                "closes them, so the model sees conversations unlike those it was trained on"
            )

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        try:
            return self._runner.run(coroutine)
        except BaseException:
            # Ctrl-C may have left rollouts half played; their calls and their envs must not run on into the next.
            self._runner.close()
            self._runner = asyncio.Runner()
            for env in self._envs.values():
                env.host.close()
            raise

    async def _play_all(self, generator_input: GeneratorInput, engine: Engine, chat: ChatFormat) -> list[Played]:
        requests = generator_input.requests
        barrier = TurnBarrier(engine, len(requests)) if self._settings.deterministic else None

        async def sample_alone(request: TurnRequest) -> TurnSample:
            return (await engine.sample([request]))[0]

        async def play_one(request: RolloutRequest) -> Played:
            env = self._envs[request.env]
            rules = Rules(
                sampling=generator_input.sampling,
                stop=tuple(dict.fromkeys((*env.stop_strings, *generator_input.sampling.stop))),
                max_context_tokens=engine.describe().max_context_tokens,
                policy_version=generator_input.policy_version,
            )
            try:
                return await play(
                    request, env.host.open(), barrier.sample if barrier else sample_alone, chat, rules
                )
            finally:
                engine.release(request)
                if barrier:
                    barrier.leave()

        return list(await asyncio.gather(*map(play_one, requests)))

    def _report_failures(self, played: list[Played]) -> None:
        failed = [one for one in played if one.rollout.status == "failed"]
        if not failed:
            return
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(one.failure_kind for one in failed).items())
        first = failed[0].rollout
        report = (
            f"{len(failed)} of {len(played)} rollouts failed ({kinds}); the first one, of task {first.task_id!r} "
            f"of env {first.request.env!r}:\n{first.error}"
        )
        if len(failed) > self._settings.max_failed_share * len(played):
            raise InfrastructureError(
                f"more than generator.max_failed_share={self._settings.max_failed_share}: {report}"
            )
        log.warning(report)

    def update_weights(self, version: int, named_tensors: Iterable[tuple[str, Any]]) -> None:
        """Hand new weights to the engine."""
        self._load_engine().update_weights(version, named_tensors)
        self._version = version

    def close(self) -> None:
        """End the envs' processes and let go of the engine."""
        for env in self._envs.values():
            env.host.close()
        if self._engine is not None:
            self._engine.close()
        self._runner.close()

    def _load_chat(self) -> tuple[PreTrainedTokenizerBase, ChatFormat]:
        if self._chat is None:
            tokenizer = load_tokenizer(self._settings.model)
            self._chat = (
                tokenizer,
                ChatFormat(tokenizer, self._settings.model, self._settings.template_arguments),
            )
        return self._chat

    def _load_engine(self) -> Engine:
        if self._engine is None:
            tokenizer, chat = self._load_chat()
            arguments = dict(self._settings.engine.get("args") or {})
            known = list(inspect.signature(self._build_engine).parameters)[3:]
            for name in arguments:
                if name not in known:
                    raise SetupError(f"engine.args.{name} is unknown; this engine takes: {', '.join(known)}")
            self._engine = cast(
                Engine,
                self._build_engine(self._settings.model, tokenizer, _eos_ids(tokenizer, chat), **arguments),
            )
        return self._engine


def _eos_ids(tokenizer: PreTrainedTokenizerBase, chat: ChatFormat) -> tuple[int, ...]:
    """What ends a turn: the template's end of turn, then the tokenizer's EOS."""
    own = (cast(int, tokenizer.eos_token_id),) if tokenizer.eos_token_id is not None else ()
    return tuple(dict.fromkeys((*chat.eos_ids, *own)))
