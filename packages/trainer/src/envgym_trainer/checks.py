# pyright: strict
"""Values that the types of the config allow and a run does not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from envgym_generator.types import GeneratorDescription, SetupError
from envgym_trainer.config import (
    AlgorithmSection,
    EnvShare,
    EvalConfig,
    EvalSection,
    ModelSection,
    SamplingSection,
    SftConfig,
    TrainConfig,
)
from envgym_trainer.model_folder import check_model_folder, is_hub_name

DTYPES = ("float32", "bfloat16")
REDUCTIONS = ("token_mean", "sequence_mean", "fixed_length")
KL_ESTIMATORS = ("k1", "k2", "k3")
SCHEDULES = ("constant", "linear", "cosine")
ESTIMATORS = ("grpo", "rloo", "reinforce_pp")
GROUP_ESTIMATORS = ("grpo", "rloo")


def check_train(config: TrainConfig, known_envs: Sequence[str]) -> None:
    """Refuse what cannot be trained with.

    Raises:
        SetupError: names the first key that is wrong.
    """
    if config.generator.path is None:  # saved rollouts know their envs
        check_envs(config.envs, known_envs)
    for name in ("steps", "tasks_per_step", "group_size", "num_processes", "rank_timeout_s"):
        at_least(name, vars(config)[name], 1)
    check_algorithm(config.algorithm, config.group_size)
    check_sampling(config.sampling)
    check_eval(config.eval, fewest_tasks=0)
    at_least("eval.every", config.eval.every, 0)
    at_least("checkpoint.every", config.checkpoint.every, 0)
    check_model(config.model, config.envs)


def check_evaluation(config: EvalConfig, known_envs: Sequence[str]) -> None:
    """Refuse what cannot be evaluated.

    Raises:
        SetupError: names the first key that is wrong.
    """
    check_envs(config.envs, known_envs)
    check_eval(config.eval, fewest_tasks=1)
    check_model(config.model, config.envs)


def check_sft(config: SftConfig) -> None:
    """Refuse what cannot be imitated.

    Raises:
        SetupError: names the first key that is wrong.
    """
    for name in ("steps", "batch_size", "micro_batch_tokens"):
        at_least(name, vars(config)[name], 1)
    for name in ("lr", "warmup_steps", "weight_decay", "max_grad_norm"):
        at_least(name, vars(config)[name], 0)
    one_of("schedule", config.schedule, SCHEDULES)
    if not Path(config.data).is_file():
        raise SetupError(f"data={config.data} does not exist; give a file of rollouts/ or of demonstrations")
    if config.model.path is None:
        raise SetupError("trainer-sft trains a model that is there; add model=FOLDER")
    one_of("model.dtype", config.model.dtype, DTYPES)
    if not is_hub_name(config.model.path):
        check_model_folder(Path(config.model.path))


def check_sampling(section: SamplingSection) -> None:
    """Refuse to train on anything but the policy's full distribution."""
    for name, off in (("top_p", 1.0), ("top_k", 0), ("min_p", 0.0)):
        if vars(section)[name] != off:
            raise SetupError(
                f"sampling.{name}={vars(section)[name]} distorts the ratio of policies that training needs; leave "
                f"it at {off}, and set eval.sampling.{name} if evaluation is meant"
            )
    if section.temperature <= 0:
        raise SetupError(f"sampling.temperature={section.temperature} must be above 0 for training")


def check_algorithm(section: AlgorithmSection, group_size: int) -> None:
    """Refuse an algorithm that is unknown, incomplete or cannot learn."""
    one_of("algorithm.reduction", section.reduction, REDUCTIONS)
    one_of("algorithm.kl_estimator", section.kl_estimator, KL_ESTIMATORS)
    one_of("algorithm.schedule", section.schedule, SCHEDULES)
    if ":" not in section.advantage:
        one_of("algorithm.advantage", section.advantage, (*ESTIMATORS, "package.module:function"))
    if section.advantage in GROUP_ESTIMATORS and group_size < 2:
        raise SetupError(
            f"group_size={group_size} leaves {section.advantage} without a baseline: every advantage would be 0; "
            "use group_size=2 or more, or algorithm=reinforce_pp"
        )
    if section.reduction == "fixed_length" and not section.fixed_length:
        raise SetupError("algorithm.reduction=fixed_length needs algorithm.fixed_length=TOKENS")
    for name in ("updates_per_step", "micro_batch_tokens", "logits_chunk_tokens"):
        at_least(f"algorithm.{name}", vars(section)[name], 1)
    for name in (
        "clip_low",
        "clip_high",
        "lr",
        "weight_decay",
        "max_grad_norm",
        "warmup_steps",
        "entropy_coef",
        "kl_coef",
    ):
        at_least(f"algorithm.{name}", vars(section)[name], 0)


def check_eval(section: EvalSection, *, fewest_tasks: int) -> None:
    """Refuse an evaluation of nothing."""
    at_least("eval.tasks", section.tasks, fewest_tasks)
    at_least("eval.samples", section.samples, 1)


def check_envs(envs: Mapping[str, EnvShare], known: Sequence[str]) -> None:
    """Refuse to start without an env."""
    if not envs:
        raise SetupError(f"no env is chosen; add +env=NAME. The registered envs are: {', '.join(known)}")


def check_model(section: ModelSection, envs: Mapping[str, EnvShare]) -> None:
    """Refuse a model that is not there, or that would have to be made for several envs at once."""
    one_of("model.dtype", section.dtype, DTYPES)
    if section.path is not None:
        if not is_hub_name(section.path):
            check_model_folder(Path(section.path))
    elif section.convert is not None:
        if section.recipe is not None:
            raise SetupError("model.convert and model.recipe exclude each other; set one of them")
    elif section.recipe is None:
        raise SetupError("no model is chosen; add model=FOLDER, or model=tiny for a toy that is made at first use")
    elif len(envs) != 1:
        raise SetupError(f"model={section.name} is made for one env and {len(envs)} are chosen; add model=FOLDER")


def check_tasks(description: GeneratorDescription, split: str) -> None:
    """Refuse an env without tasks."""
    for env, sizes in description.num_tasks.items():
        if not sizes.get(split):
            hint = "; or set eval.tasks=0 to train without evaluation" if split == "eval" else ""
            raise SetupError(f"env {env!r} has no {split} tasks; give it a file that has some{hint}")


def check_absent(path: Path) -> None:
    """Refuse to write where something is."""
    if path.exists():
        raise SetupError(f"run_dir={path} already exists and is not overwritten; choose another, or remove it")


def at_least(key: str, value: float, low: float) -> None:
    """Refuse a number below a bound, or one that is no number."""
    if not low <= value < float("inf"):
        raise SetupError(f"{key}={value} must be at least {low}")


def one_of(key: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a word that is not among the known ones."""
    if value not in known:
        raise SetupError(f"{key}={value} is unknown; there is: {', '.join(known)}")
