"""From a command line to a checked config, through hydra's compose API."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, cast

from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from envgym_generator.types import SetupError
from envgym_trainer.config import EnvShare, EvalConfig, SftConfig, TrainConfig
from envgym_trainer.config_reference import keys

CONF = "envgym_trainer.conf"
ENV_GROUP = "envgym.envs"
FACTS_OF_A_MODEL = (
    "dtype", "lr", "max_turn_tokens", "max_rollout_tokens", "tasks_per_step", "group_size", "eval_tasks",
)  # fmt: skip
"""Keys of ``model`` that hold for its checkpoints too."""
OPEN_SECTIONS = (
    "env",
    "envs",
    "deepspeed",
    "engine.args",
    "generator.template_arguments",
    "generator.isolation",
)

Config = TypeVar("Config", TrainConfig, EvalConfig, SftConfig)


def env_names() -> list[str]:
    """The names that ``+env=`` takes. Nothing is imported."""
    return sorted({entry.name for entry in entry_points(group=ENV_GROUP)})


def group_options(group: str) -> list[str]:
    """The names that ``<group>=`` takes."""
    folder = files(CONF).joinpath(group)
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def read_command_line(command: str, schema: type[Config], arguments: Sequence[str]) -> Config:
    """Compose the config of a command.

    Args:
        command: names ``conf/<command>.yaml``.
        schema: the dataclass of the config.
        arguments: hydra overrides; ``model=`` may also name a folder.

    Returns:
        The config, with ``env`` and ``envs`` brought into one form: ``envs`` maps names to ``EnvShare``.

    Raises:
        SetupError: whatever is wrong, in one line.
    """
    chosen = chosen_env(arguments)
    _register(command, schema)
    try:
        with initialize_config_module(CONF, version_base="1.3"):
            composed = compose(command, overrides=hydra_overrides(arguments))
        # Keys added with + get past hydra; merging into the bare schema finds them.
        values = OmegaConf.to_container(composed, resolve=True)
        merged = OmegaConf.merge(OmegaConf.structured(schema), values)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise SetupError(explain(error, command, schema)) from error
    if missing := sorted(OmegaConf.missing_keys(merged)):
        raise SetupError(f"{missing[-1]} is not set; add {missing[-1]}=VALUE")
    config = cast(Config, OmegaConf.to_object(merged))
    if not isinstance(config, SftConfig):
        config.envs = env_shares(chosen, config.env, config.envs)
        config.env = {}
    return config


def _register(command: str, schema: type[Any]) -> None:
    """Put the schema and a node for each env where hydra looks for them."""
    store = ConfigStore.instance()
    root = OmegaConf.structured(schema)
    for section in OPEN_SECTIONS:
        node = OmegaConf.select(root, section)
        if node is not None:
            OmegaConf.set_struct(node, False)
    store.store(name=f"{command}_schema", node=root)
    for name in env_names():
        store.store(group="env", name=name, node=OmegaConf.create({}, flags={"struct": False}))


def chosen_env(arguments: Sequence[str]) -> str | None:
    """The name after ``+env=``.

    Raises:
        SetupError: for an unknown name, or for more than one.
    """
    values = [value for key, _, value in (text.partition("=") for text in arguments) if key.lstrip("+") == "env"]
    if not values:
        return None
    if len(values) > 1 or values[0].startswith("["):
        raise SetupError("+env takes one name; for several use envs.NAME={weight: 1} for each")
    if values[0] not in env_names():
        raise SetupError(f"unknown env {values[0]!r}; the registered envs are: {', '.join(env_names())}")
    return values[0]


def hydra_overrides(arguments: Sequence[str]) -> list[str]:
    """The arguments for hydra: ``model=FOLDER`` or a hub name spelled out, and ``env=`` as ``+env=``."""
    overrides: list[str] = []
    for argument in arguments:
        key, separator, value = argument.partition("=")
        if key == "model" and separator and value not in group_options("model"):
            facts = {"path": value, "name": Path(value).resolve().name} | facts_from_run(Path(value))
            overrides += ["model=pretrained", *(f"model.{name}={quote(fact)}" for name, fact in facts.items())]
        elif key == "env":
            overrides.append(f"+{argument}")
        else:
            overrides.append(argument)
    return overrides


def facts_from_run(folder: Path) -> dict[str, Any]:
    """What the config of the run that saved a checkpoint says about its model; nothing for any other folder."""
    path = folder.resolve().parent.parent / "config.yaml"
    if folder.resolve().parent.name != "checkpoints" or not path.is_file():
        return {}
    model = cast("dict[str, Any]", OmegaConf.to_container(OmegaConf.load(path))).get("model", {})
    facts = {name: model[name] for name in FACTS_OF_A_MODEL if name in model}
    return facts | {"name": f"{model['name']}-{folder.resolve().name}"} if "name" in model else facts


def quote(value: object) -> str:
    """A value as hydra's grammar takes it; text is quoted, whatever is in it."""
    if not isinstance(value, str):
        return str(value)
    # Backslashes count only before a quote, the closing one included; there they are doubled.
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + found[2].replace("'", "\\'"), value)
    return f"'{escaped}'"


def env_shares(chosen: str | None, arguments: Mapping[str, Any], envs: Mapping[str, Any]) -> dict[str, EnvShare]:
    """Bring ``+env=NAME env.x=...`` or ``envs.NAME={...}`` into one form; empty where neither is given.

    Raises:
        SetupError: if both are given, or an entry of ``envs`` is malformed.
    """
    if chosen is not None and envs:
        raise SetupError(f"+env={chosen} and envs.{next(iter(envs))} exclude each other; list all under envs")
    if chosen is not None:
        return {chosen: EnvShare(arguments=dict(arguments))}
    if arguments:
        raise SetupError(
            f"env.{next(iter(arguments))} is an argument of an env, and none is chosen; add +env=NAME"
        )
    return {name: _env_share(name, value) for name, value in envs.items()}


def _env_share(name: str, value: object) -> EnvShare:
    if name not in env_names():
        raise SetupError(f"unknown env {name!r} in envs; the registered envs are: {', '.join(env_names())}")
    entry = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    unknown = set(entry) - {"weight", "arguments"}
    weight, arguments = entry.get("weight", 1.0), entry.get("arguments", {})
    if not isinstance(value, dict) or unknown or not isinstance(arguments, dict):
        raise SetupError(f"envs.{name}={value} must have the form {{weight: 1, arguments: {{}}}}")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
        raise SetupError(f"envs.{name}.weight={weight} must be a number above 0")
    return EnvShare(weight=float(weight), arguments=cast("dict[str, Any]", arguments))


def explain(error: Exception, command: str, schema: type[Any]) -> str:
    """One line for an error of hydra or omegaconf."""
    message = str(error)
    unknown = re.search(r"Could not override '([^']+)'|Key '([^']+)' (?:not in|is not in struct)", message)
    if unknown:
        key = re.search(r"full_key: (\S+)", message)
        return _unknown_key(key.group(1) if key else unknown.group(1) or unknown.group(2), command, schema)
    option = re.search(r"Could not find '([^/]+)/(.*)'", message)
    if option:
        group, name = option.groups()
        return f"{group}={name} is unknown; there is: {', '.join(group_options(group))}"
    if "parsing override" in message:
        return f"{message.splitlines()[0]}: write KEY=VALUE, with quotes around a value that has commas or spaces"
    causes = [line for part in (error, error.__cause__) if part for line in str(part).splitlines()[:1]]
    return ": ".join(causes)


def _unknown_key(key: str, command: str, schema: type[Any]) -> str:
    close = get_close_matches(key, [known.name for known in keys(schema)], n=1)
    hint = f"did you mean {close[0]}?" if close else f"see trainer-{command} --help"
    return f"unknown key {key}; {hint}"


def default_values(command: str, schema: type[Any]) -> dict[str, Any]:
    """The value that each key has if nobody sets it, with groups and references to other keys resolved."""
    _register(command, schema)
    with initialize_config_module(CONF, version_base="1.3"):
        composed = compose(command)
    return {key.name: OmegaConf.select(composed, key.name, throw_on_missing=False) for key in keys(schema)}
