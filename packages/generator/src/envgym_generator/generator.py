"""The generator: envs, an engine and a chat template, put together to play what a trainer asks for."""

import asyncio
import hashlib
import inspect
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from envgym import SetupError, TextEnv, check_arguments, load_env_class, make_env
from envgym_generator.barrier import TurnBarrier
from envgym_generator.chat import ChatFormat
from envgym_generator.dotted_path import load_attribute
from envgym_generator.engines.protocol import Engine, TurnRequest, TurnSample
from envgym_generator.env_host import EnvHost, InlineHost
from envgym_generator.env_process import ProcessHost
from envgym_generator.metrics import Played, batch_metrics
from envgym_generator.rollout import Rules, Sampler, play
from envgym_generator.types import (
    JSON,
    GeneratorDescription,
    GeneratorInput,
    GeneratorOutput,
    InfrastructureError,
    RolloutRequest,
)

SPLITS = ("train", "eval")


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What ``build_rollout_generator`` is given, as plain data."""

    envs: Mapping[str, Mapping[str, Any]]
    """By name: ``{"arguments": {...}}``; a trainer's ``weight`` may stand beside it."""
    engine: Mapping[str, Any]
    """``{"target": "package.module:build_engine", "args": {...}}``."""
    model: str
    """Model folder or hub name; its tokenizer encodes."""
    seed: int = 0
    """Not drawn from: each request brings its own seed."""
    deterministic: bool = True
    """Whether rollouts meet at turn barriers and are sampled in a fixed order."""
    max_failed_share: float = 0.5
    """Failed rollouts ÷ all of a step, above which ``generate`` raises."""
    isolation: Mapping[str, str] = field(default_factory=dict[str, str])
    """By env: ``inline`` or ``process``, where the class's own choice is not wanted."""
    env_workers: int = field(default_factory=lambda: max(1, os.cpu_count() or 1))
    """Processes per env that is played in processes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Env:
    """An env of the run, checked."""

    env_class: type[TextEnv]
    arguments: dict[str, Any]
    num_tasks: dict[str, int]
    stop_strings: tuple[str, ...]
    host: EnvHost


def build_rollout_generator(config: Mapping[str, Any]) -> "RolloutGenerator":
    """Build a generator from the fields of ``Settings``. No model is loaded yet.

    Further keys of a trainer's ``generator`` section that only other generators use must be None.

    Raises:
        SetupError: for an unknown key, or an env that cannot be built from its arguments.
    """
    known = {name: value for name, value in config.items() if name in Settings.__dataclass_fields__}
    for name, value in config.items():
        if name not in known and name != "target" and value is not None:
            raise SetupError(f"generator.{name}={value} is not read by the rollout generator; leave it out")
    return RolloutGenerator(Settings(**known))


class RolloutGenerator:
    """See ``envgym_generator.types.Generator``."""

    def __init__(self, settings: Settings) -> None:
        """Build the envs; the tokenizer and the engine are loaded when they are needed."""
        self._settings = settings
        self._envs = {name: _build_env(name, entry, settings) for name, entry in settings.envs.items()}
        self._build_engine = load_attribute(settings.engine["target"], "engine.target")
        self._runner = asyncio.Runner()
        self._tokenizer: PreTrainedTokenizerBase | None = None
        self._chat: ChatFormat | None = None
        self._engine: Engine | None = None
        self._version: int | None = None

    def describe(self) -> GeneratorDescription:
        """Say what there is to play. Loads the tokenizer, and no model."""
        tokenizer, chat = self._load_chat()
        return GeneratorDescription(
            num_tasks={name: env.num_tasks for name, env in self._envs.items()},
            stop=tuple(dict.fromkeys(stop for env in self._envs.values() for stop in env.stop_strings)),
            tokenizer_fingerprint=_tokenizer_fingerprint(tokenizer),
            eos_ids=_eos_ids(tokenizer, chat),
            max_context_tokens=_max_context_tokens(self._settings.model),
        )

    def generate(self, generator_input: GeneratorInput) -> GeneratorOutput:
        """Play every request.

        Raises:
            ValueError: if the weights are not those of the requested version.
            InfrastructureError: if more than ``max_failed_share`` of the rollouts failed; holds the first traceback.
        """
        if self._version not in (None, generator_input.policy_version):
            raise ValueError(
                f"asked to play with version {generator_input.policy_version}, and the engine has {self._version}"
            )
        _, chat = self._load_chat()
        engine = self._load_engine()
        played = self._runner.run(self._play_all(generator_input, engine, chat))
        self._check_failures(played)
        return GeneratorOutput(
            rollouts=tuple(one.rollout for one in played),
            sampling=generator_input.sampling,
            policy_version=generator_input.policy_version,
            envs={name: _describe_env(env) for name, env in self._envs.items()},
            model_fingerprint=engine.describe().model_fingerprint,
            metrics=batch_metrics(played),
        )

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
            sample: Sampler = barrier.sample if barrier else sample_alone
            try:
                return await play(request, env.host.open(), sample, chat, rules)
            finally:
                if barrier:
                    barrier.leave()

        return list(await asyncio.gather(*map(play_one, requests)))

    def _check_failures(self, played: list[Played]) -> None:
        failed = [one for one in played if one.rollout.status == "failed"]
        if len(failed) > self._settings.max_failed_share * len(played):
            raise InfrastructureError(
                f"{len(failed)} of {len(played)} rollouts failed, more than generator.max_failed_share="
                f"{self._settings.max_failed_share}; the first one:\n{failed[0].rollout.error}"
            )

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
        if self._tokenizer is None or self._chat is None:
            self._tokenizer = _load_tokenizer(self._settings.model)
            self._chat = ChatFormat(self._tokenizer, self._settings.model)
        return self._tokenizer, self._chat

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


def _build_env(name: str, entry: Mapping[str, Any], settings: Settings) -> _Env:
    """Check an env by building it once: its arguments, its files and its tasks."""
    env_class = load_env_class(name)
    arguments = dict(entry.get("arguments") or {})
    check_arguments(env_class, arguments)
    try:
        env = make_env(name, **arguments)
        num_tasks = {split: len(env.tasks(split)) for split in SPLITS}
    except SetupError:
        raise
    except (TypeError, ValueError, OSError) as error:
        raise SetupError(f"env {name!r} refuses its arguments {arguments}: {error}") from error
    if not num_tasks["train"] and not num_tasks["eval"]:
        raise SetupError(f"env {name!r} has no tasks with the arguments {arguments}")
    return _Env(
        env_class=env_class,
        arguments=arguments,
        num_tasks=num_tasks,
        stop_strings=tuple(env.stop_strings),
        host=_build_host(name, env_class, arguments, settings),
    )


def _build_host(name: str, env_class: type[TextEnv], arguments: dict[str, Any], settings: Settings) -> EnvHost:
    isolation = settings.isolation.get(name, env_class.isolation)
    if isolation == "inline":
        return InlineHost(lambda: make_env(name, **arguments), env_class.deadline_s)
    return ProcessHost(name, arguments, env_class.deadline_s, settings.env_workers)


def _describe_env(env: _Env) -> JSON:
    """Class, version and every argument, defaults included, as JSON."""
    parameters = inspect.signature(env.env_class).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    arguments = json.loads(json.dumps(defaults | env.arguments, default=str))
    path = f"{env.env_class.__module__}:{env.env_class.__qualname__}"
    return {"class": path, "version": env.env_class.version, "arguments": arguments}


def _load_tokenizer(model: str) -> PreTrainedTokenizerBase:
    try:
        return AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise SetupError(f"model {model} has no tokenizer that loads: {' '.join(str(error).split())}") from error


def _tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of the vocabulary, the special tokens and the chat template."""
    facts = [sorted(tokenizer.get_vocab().items()), tokenizer.all_special_tokens, tokenizer.chat_template]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _eos_ids(tokenizer: PreTrainedTokenizerBase, chat: ChatFormat) -> tuple[int, ...]:
    """What ends a turn: the template's end of turn, then the tokenizer's EOS."""
    own = (tokenizer.eos_token_id,) if tokenizer.eos_token_id is not None else ()
    return tuple(dict.fromkeys((*chat.closing_special_ids, *own)))


def _max_context_tokens(model: str) -> int:
    return int(AutoConfig.from_pretrained(model).max_position_embeddings)
