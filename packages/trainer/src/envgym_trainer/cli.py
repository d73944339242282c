"""The commands trainer-train, trainer-eval and trainer-sft.

Whatever can be found wrong without torch is found before it is imported: the imports inside functions are the
slow ones.
"""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.console import Console

from envgym_generator.types import Generator, GeneratorDescription, InfrastructureError, SetupError
from envgym_trainer import checks, dotted_path
from envgym_trainer.command_line import default_values, env_names, group_options, read_command_line
from envgym_trainer.config import EvalConfig, ModelSection, SftConfig, TrainConfig
from envgym_trainer.config_reference import keys
from envgym_trainer.errors import RunError
from envgym_trainer.launch import call_alone, check_world_size, is_first_rank, launch, own_arguments, was_launched
from envgym_trainer.model_cache import PACKAGES, Conversion, WarmStart
from envgym_trainer.model_folder import fetch_model, is_hub_name
from envgym_trainer.progress import Progress
from envgym_trainer.run_folder import RunFolder, default_path

USAGE = {
    "train": "trainer-train +env=NAME [KEY=VALUE ...]\n\nTrain a model on an env by reinforcement learning.",
    "eval": "trainer-eval +env=NAME model=FOLDER [KEY=VALUE ...]\n\nPlay an env's held-out tasks with a model.",
    "sft": "trainer-sft data=FILE model=FOLDER [KEY=VALUE ...]\n\nTrain a model to imitate saved rollouts.",
}
SCHEMAS = {"train": TrainConfig, "eval": EvalConfig, "sft": SftConfig}
GROUPS = {
    "train": ("model", "engine", "generator", "algorithm"),
    "eval": ("model", "engine"),
    "sft": ("model",),
}
EVERYDAY = (
    "seed",
    "steps",
    "run_dir",
    "data",
    "tasks_per_step",
    "group_size",
    "deterministic",
    "batch_size",
    "lr",
)
EVERYDAY_SECTIONS = ("eval.", "checkpoint.", "sampling.")


def train_command() -> None:
    """``trainer-train``."""
    sys.exit(run_command("train", train_main, sys.argv[1:]))


def eval_command() -> None:
    """``trainer-eval``."""
    sys.exit(run_command("eval", eval_main, sys.argv[1:]))


def sft_command() -> None:
    """``trainer-sft``."""
    sys.exit(run_command("sft", sft_main, sys.argv[1:]))


def run_command(name: str, main: Callable[[Sequence[str]], None], arguments: Sequence[str]) -> int:
    """Run a command and turn what ends it into a line on standard error and an exit code.

    Returns:
        0; 2 for wrong input; 1 where the run could not go on; 130 after Ctrl-C.
    """
    if {"-h", "--help"} & set(arguments):
        print(help_text(name))
        return 0
    try:
        main(arguments)
    except SetupError as error:
        return _stop(name, error, 2)
    except RunError as error:
        return _stop(name, error, 1) if is_first_rank() else 1
    except InfrastructureError as error:
        if not is_first_rank():
            return 1
        print(f"trainer-{name}: {error}", file=sys.stderr)  # with the traceback of what broke
        return 1
    except KeyboardInterrupt:
        if was_launched():
            return 130
        return _stop(name, "stopped by Ctrl-C; everything up to the last finished step is kept", 130)
    return 0


def _stop(name: str, message: object, code: int) -> int:
    print(f"trainer-{name}: {' '.join(str(message).split())}", file=sys.stderr)
    return code


def help_text(name: str) -> str:
    """What ``--help`` prints: the names of envs, the options of groups, and the keys that everyone uses."""
    values = default_values(name, SCHEMAS[name])
    lines = [f"usage: {USAGE[name]}", ""]
    if name != "sft":
        lines += [f"envs: {', '.join(env_names())}  (their arguments: env.ARGUMENT=VALUE)"]
    lines += [f"{group}: {', '.join(group_options(group))}" for group in GROUPS[name]]
    lines += ["model also takes a folder with tokenizer and chat template, or a name on the hub", "", "keys:"]
    for key in keys(SCHEMAS[name]):
        if key.name in EVERYDAY or key.name.startswith(EVERYDAY_SECTIONS):
            lines.append(f"  {key.name}={_shown(values[key.name])}\n      {key.text.replace('``', '')}")
    return "\n".join([*lines, "", "All keys: docs/config.md, or packages/trainer/src/envgym_trainer/config.py"])


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


def train_main(arguments: Sequence[str]) -> None:
    """Everything that ``trainer-train`` does, in one process or as one of several."""
    arguments = own_arguments(arguments)
    if was_launched():
        _train_as_rank(arguments)
        return
    config, folder = read_train(arguments)
    if config.num_processes > 1:
        launch(config.num_processes, arguments)
        return
    generator, description, model_folder = prepare_training(config)
    try:
        folder.make(config_yaml("train", arguments, config))
        progress = Progress()
        progress.say(f"run folder: {folder.path}")

        from envgym_trainer.train import start

        start(config, generator, description, model_folder, folder, progress)
    finally:
        generator.close()


def _train_as_rank(arguments: Sequence[str]) -> None:
    """The same as one of several processes. The first one resolves the config and makes what is to be made."""
    from envgym_trainer.deepspeed_policy import join_process_group
    from envgym_trainer.ranks import Ranks
    from envgym_trainer.train import start

    join_process_group()
    ranks = Ranks(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    resolved: list[tuple[TrainConfig, RunFolder]] = []
    if ranks.is_first:
        ranks.first_before_others(lambda: resolved.append(read_train(arguments)), "reading the config")
    else:
        ranks.first_before_others(lambda: None, "reading the config")
    config, folder = ranks.gather(resolved, "reading the config")[0][0]
    generator, description, model_folder = ranks.first_before_others(
        lambda: prepare_training(config), "preparing model and envs"
    )
    try:
        progress = Progress(Console(quiet=not ranks.is_first, soft_wrap=True))
        if ranks.is_first:
            folder.make(config_yaml("train", arguments, config))
            progress.say(f"run folder: {folder.path}")
        start(config, generator, description, model_folder, folder, progress, ranks)
    finally:
        generator.close()


def read_train(arguments: Sequence[str]) -> tuple[TrainConfig, RunFolder]:
    """The checked config, and where the run goes."""
    config = read_command_line("train", TrainConfig, arguments)
    checks.check_train(config, env_names())
    if was_launched():
        config.num_processes = check_world_size(config.num_processes)
    return config, RunFolder(run_path(config.run_dir, "+".join(config.envs) or "replay", config.model.name))


def prepare_training(config: TrainConfig) -> tuple[Generator, GeneratorDescription, Path]:
    """The generator, its description and the model's folder, with enough to play."""
    generator, description, model_folder = prepare_generator(config, config.seed)
    try:
        checks.check_tasks(description, "train")
        if config.eval.tasks:
            checks.check_tasks(description, "eval")
    except SetupError:
        generator.close()
        raise
    return generator, description, model_folder


def eval_main(arguments: Sequence[str]) -> None:
    """Everything that ``trainer-eval`` does."""
    config = read_command_line("eval", EvalConfig, arguments)
    checks.check_evaluation(config, env_names())
    folder = RunFolder(run_path(config.run_dir, "+".join(config.envs), config.model.name))
    generator, description, model_folder = prepare_generator(config, config.eval.seed)
    try:
        checks.check_tasks(description, "eval")
        folder.make(config_yaml("eval", arguments, config))
        progress = Progress()
        progress.say(f"run folder: {folder.path}")

        from envgym_trainer.evaluate import evaluate_folder

        evaluate_folder(config, generator, description, model_folder, folder, progress)
    finally:
        generator.close()


def sft_main(arguments: Sequence[str]) -> None:
    """Everything that ``trainer-sft`` does."""
    config = read_command_line("sft", SftConfig, arguments)
    checks.check_sft(config)
    folder = RunFolder(run_path(config.run_dir, "sft", config.model.name))
    from envgym_trainer.sft_run import run_sft

    run_sft(config, folder, config_yaml("sft", arguments, config), Progress())


def run_path(run_dir: str | None, *parts: str) -> Path:
    """Where the run goes; refused where something is there already."""
    path = Path(run_dir) if run_dir is not None else default_path(*parts)
    checks.check_absent(path)
    return path


def prepare_generator(config: TrainConfig | EvalConfig, seed: int) -> tuple[Generator, GeneratorDescription, Path]:
    """Build the generator, and make or fetch the model that it and the trainer load, if need be.

    The generator comes first: it finds a wrong env, corpus or task file in a second, and making a model takes a
    minute.
    """
    model = planned_model(config.model, list(config.envs))
    build = dotted_path.load(config.generator.target, "generator.target")
    generator: Generator = build(generator_config(config, model, seed))
    try:
        provide = partial(call_alone, provide_model) if was_launched() else provide_model
        model_folder = provide(config.model, list(config.envs))
        return generator, generator.describe(), model_folder
    except BaseException:
        generator.close()
        raise


def generator_config(config: TrainConfig | EvalConfig, model: str, seed: int) -> dict[str, Any]:
    """What a generator's ``build(config)`` gets, as plain data; what is not set is left to it."""
    return {
        **{key: value for key, value in asdict(config.generator).items() if value not in (None, {})},
        "envs": {name: asdict(share) for name, share in config.envs.items()},
        "engine": asdict(config.engine),
        "model": model,
        "seed": seed,
        "deterministic": config.deterministic,
    }


def planned_model(section: ModelSection, envs: Sequence[str]) -> str:
    """The folder where the model is, or will be once it is made; or its name on the hub."""
    return section.path if section.path is not None else str(_planned(section, envs).folder)


def provide_model(section: ModelSection, envs: Sequence[str]) -> Path:
    """The folder of the model, which is made or fetched first where it is not there."""
    if section.path is not None:
        return fetch_model(section.path) if is_hub_name(section.path) else Path(section.path)
    planned = _planned(section, envs)
    if not planned.folder.is_dir():
        from envgym_trainer.warm_start import convert_model, make_model

        if isinstance(planned, Conversion):
            convert_model(planned, Progress())
        else:
            make_model(planned, Progress())
    return planned.folder


def _planned(section: ModelSection, envs: Sequence[str]) -> WarmStart | Conversion:
    if section.convert is not None:
        return Conversion(name=section.name, convert=section.convert)
    return WarmStart(name=section.name, recipe=section.recipe or "", env=envs[0], seed=section.seed)


def config_yaml(name: str, arguments: Sequence[str], config: TrainConfig | EvalConfig | SftConfig) -> str:
    """The resolved config, below the command that it came from and the versions it was resolved by."""
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    values = {key: value for key, value in asdict(config).items() if key != "env"}
    command = shlex.join(arguments).replace("\n", " ")
    return f"# trainer-{name} {command}\n# {versions}\n{OmegaConf.to_yaml(OmegaConf.create(values))}"
