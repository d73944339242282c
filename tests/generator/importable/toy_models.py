"""Tokenizers and models small enough to be made by each test."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TEXTS = (
    "Guess a number. The answer is higher. The answer is lower.",
    "<guess>1</guess> <guess>12</guess> user assistant system",
    "A document that mentions <|im_end|> and <think> twice.",
)


def make_tokenizer(
    template: str | None = CHATML,
    *,
    texts: Sequence[str] = TEXTS,
    special: Sequence[str] = ("<|pad|>", "<|im_start|>", "<|im_end|>"),
    eos: str = "<|im_end|>",
    words: str = r"</?[A-Za-z_]+>\n?|\s?[A-Za-z]+|\s?[0-9]|\s+|\s?[^\sA-Za-z0-9<]|<",
    vocabulary: int = 400,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer. By default ``</guess>`` is one token and ``</guess>\\n`` another."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *["</guess>\n</guess> <guess>\n"] * 9] * 3, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=special[0],
        eos_token=eos,
        additional_special_tokens=[token for token in special[1:] if token != eos],
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )


def make_model(
    tokenizer: PreTrainedTokenizerFast, *, seed: int = 0, tied: bool = True, context: int = 512, **changes
):
    """A random Llama of two layers."""
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=tied, max_position_embeddings=context,
        initializer_range=0.2, pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None, dtype="float32", **changes,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def save_model_folder(folder: Path, *, tokenizer: PreTrainedTokenizerFast | None = None, **changes) -> Path:
    """A model folder as a user has it."""
    tokenizer = tokenizer or make_tokenizer()
    make_model(tokenizer, **changes).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder
