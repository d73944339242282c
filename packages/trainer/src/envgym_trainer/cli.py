"""The commands trainer-train, trainer-eval and trainer-sft.

Whatever can be found wrong without torch is found before it is imported: the imports inside functions are the
slow ones.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from envgym_generator.types import Generator, GeneratorDescription, InfrastructureError, SetupError
from envgym_trainer import checks, dotted_path
from envgym_trainer.command_line import default_values, env_names, group_options, read_command_line
from envgym_trainer.config import EvalConfig, ModelSection, SftConfig, TrainConfig
from envgym_trainer.config_reference import keys
from envgym_trainer.errors import RunError
from envgym_trainer.model_cache import PACKAGES, WarmStart
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
        return _stop(name, error, 1)
    except InfrastructureError as error:
        print(f"trainer-{name}: {error}", file=sys.stderr)  # with the traceback of what broke
        return 1
    except KeyboardInterrupt:
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
    lines += ["model also takes a folder with tokenizer and chat template", "", "keys:"]
    for key in keys(SCHEMAS[name]):
        if key.name in EVERYDAY or key.name.startswith(EVERYDAY_SECTIONS):
            lines.append(f"  {key.name}={_shown(values[key.name])}\n      {key.text.replace('``', '')}")
    return "\n".join([*lines, "", "All keys: docs/config.md, or packages/trainer/src/envgym_trainer/config.py"])


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


def train_main(arguments: Sequence[str]) -> None:
    """Everything that ``trainer-train`` does."""
    config = read_command_line("train", TrainConfig, arguments)
    checks.check_train(config, env_names())
    folder = RunFolder(run_path(config.run_dir, "+".join(config.envs) or "replay", config.model.name))
    generator, description, model_folder = prepare_generator(config, config.seed)
    try:
        checks.check_tasks(description, "train")
        if config.eval.tasks:
            checks.check_tasks(description, "eval")
        folder.make(config_yaml("train", arguments, config))
        progress = Progress()
        progress.say(f"run folder: {folder.path}")

        from envgym_trainer.train import start

        start(config, generator, description, model_folder, folder, progress)
    finally:
        generator.close()


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
    """Build the generator, and make the model that it and the trainer load where that is still to be done.

    The generator comes first: it finds a wrong env, corpus or task file in a second, and making a model takes a
    minute.
    """
    model_folder = planned_model_folder(config.model, list(config.envs))
    build = dotted_path.load(config.generator.target, "generator.target")
    generator: Generator = build(generator_config(config, model_folder, seed))
    try:
        make_model_if_planned(config.model, list(config.envs))
        return generator, generator.describe(), model_folder
    except BaseException:
        generator.close()
        raise


def generator_config(config: TrainConfig | EvalConfig, model_folder: Path, seed: int) -> dict[str, Any]:
    """What a generator's ``build(config)`` gets, as plain data."""
    return {
        **asdict(config.generator),
        "envs": {name: asdict(share) for name, share in config.envs.items()},
        "engine": asdict(config.engine),
        "model": str(model_folder),
        "seed": seed,
        "deterministic": config.deterministic,
    }


def planned_model_folder(section: ModelSection, envs: Sequence[str]) -> Path:
    """Where the model is, or will be once it is made."""
    return Path(section.path) if section.path is not None else _warm_start(section, envs).folder


def make_model_if_planned(section: ModelSection, envs: Sequence[str]) -> None:
    """Make the model where the config names a recipe and the cache has no result of it."""
    if section.path is None and not _warm_start(section, envs).folder.is_dir():
        from envgym_trainer.warm_start import make_model

        make_model(_warm_start(section, envs), Progress())


def _warm_start(section: ModelSection, envs: Sequence[str]) -> WarmStart:
    return WarmStart(name=section.name, recipe=section.recipe or "", env=envs[0], seed=section.seed)


def config_yaml(name: str, arguments: Sequence[str], config: TrainConfig | EvalConfig | SftConfig) -> str:
    """The resolved config, below the command that it came from and the versions it was resolved by."""
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    values = {key: value for key, value in asdict(config).items() if key != "env"}
    return f"# trainer-{name} {' '.join(arguments)}\n# {versions}\n{OmegaConf.to_yaml(OmegaConf.create(values))}"
