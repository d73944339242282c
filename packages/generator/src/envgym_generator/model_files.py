"""What can be known of a model without loading it: its tokenizer and the length of its context."""

import hashlib
import json

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from envgym import SetupError


def load_tokenizer(model: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model folder or hub name.

    Raises:
        SetupError: if there is none.
    """
    try:
        return AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"model {model} has no tokenizer that loads: {' '.join(str(error).split())}") from error


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of the vocabulary, the special tokens and the chat template."""
    facts = [sorted(tokenizer.get_vocab().items()), sorted(tokenizer.all_special_tokens), tokenizer.chat_template]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def max_context_tokens(model: str) -> int:
    """Most ids that a model can hold, by its config.

    Raises:
        SetupError: if it has no config.
    """
    try:
        config = AutoConfig.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise SetupError(f"model {model} has no config that loads: {' '.join(str(error).split())}") from error
    return int(config.get_text_config().max_position_embeddings)
