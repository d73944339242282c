# pyright: strict
"""Model folders in Hugging Face's layout, looked at without loading what is in them."""

import json
import re
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from envgym_generator.types import SetupError

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
HUB_FILES = ["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"]
"""What is fetched of a model of the hub; code and other formats of the weights are not."""
TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")


def check_model_folder(folder: Path) -> None:
    """Make sure that a folder holds a model, its tokenizer and a chat template.

    Raises:
        SetupError: names what is missing.
    """
    if not folder.is_dir():
        raise SetupError(f"model folder {folder} does not exist; give the folder of a model, or model=tiny")
    if not (folder / "config.json").is_file():
        raise SetupError(f"model folder {folder} has no config.json; give a folder in Hugging Face's layout")
    if not any(path.suffix in WEIGHT_SUFFIXES for path in folder.iterdir()):
        raise SetupError(f"model folder {folder} has no weights (*.safetensors); save the model there first")
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise SetupError(f"model folder {folder} has no tokenizer (tokenizer.json); save the tokenizer there too")
    if not has_chat_template(folder):
        raise SetupError(
            f"model folder {folder} has no chat template; add chat_template.jinja, or take an instruct model"
        )


def is_hub_name(model: str) -> bool:
    """Whether a model is named as on the hub (``owner/name``) and there is no such folder.

    >>> is_hub_name("owner/model-1.5B"), is_hub_name("./owner/model"), is_hub_name("a/b/c")
    (True, False, False)
    """
    return re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", model) is not None and not Path(model).exists()


def fetch_model(name: str) -> Path:
    """The folder of a model of the hub, which is fetched where the hub's own cache does not have it.

    Raises:
        SetupError: if it cannot be fetched, or is no causal language model with a chat template.
    """
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

    download: Callable[..., str] = import_module("huggingface_hub").snapshot_download  # its own type is incomplete
    disable_progress_bars()
    try:
        folder = Path(download(name, allow_patterns=HUB_FILES))
    except (OSError, ValueError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        reason = " ".join(str(error).split())
        raise SetupError(f"model={name} is no folder here and cannot be fetched from the hub: {reason}") from error
    finally:
        enable_progress_bars()
    check_model_folder(folder)
    return folder


def has_chat_template(folder: Path) -> bool:
    """Whether the tokenizer of a folder comes with a chat template, in a file of its own or in its config."""
    if any((folder / name).is_file() for name in TEMPLATE_FILES):
        return True
    config = folder / "tokenizer_config.json"
    return config.is_file() and bool(_read_json(config).get("chat_template"))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
    except json.JSONDecodeError as error:
        raise SetupError(f"{path} is not valid JSON (line {error.lineno}): {error.msg}") from error


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy what is not weights and not in the target yet: tokenizer, template, generation config."""
    for path in sorted(source.iterdir()):
        is_weight = path.suffix in WEIGHT_SUFFIXES or path.name.endswith(".index.json")
        if path.is_file() and not is_weight and not (target / path.name).exists():
            shutil.copy2(path, target / path.name)


def version_of(folder: Path) -> int:
    """The policy version of a checkpoint folder named ``step_<n>``; 0 for any other name."""
    prefix, _, number = folder.resolve().name.rpartition("_")
    return int(number) if prefix == "step" and number.isdigit() else 0
