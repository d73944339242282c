"""The small learner before any training: a Llama of 0.2 million parameters with one head set by hand."""

from pathlib import Path
from typing import cast

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.models.llama.modeling_llama import LlamaAttention

from envgym_generator.tiny.tokenizer import END, PAD

HIDDEN, LAYERS, HEADS, MLP = 64, 3, 2, 192
ROPE_THETA = 100.0
MAX_CONTEXT = 2048


def make_untrained(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """Build the model with random weights from ``seed``, and a head that attends to the previous token."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=MLP,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        tie_word_embeddings=True,
        attention_bias=True,
        max_position_embeddings=MAX_CONTEXT,
        initializer_range=0.08,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        pad_token_id=cast(int, tokenizer.convert_tokens_to_ids(PAD)),
        eos_token_id=cast(int, tokenizer.convert_tokens_to_ids(END)),
        bos_token_id=None,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    _look_one_back(model)
    return model


def _look_one_back(model: LlamaForCausalLM, strength: float = 3.0) -> None:
    """Set the query and key biases of layer 0's first head so that its attention peaks one token back.

    Rotary embedding turns a vector by its position; a key that is the query turned by one step therefore meets
    it head on at distance 1. Copying needs such a head, and training alone takes very long to find it.
    """
    attention = cast(LlamaAttention, model.model.layers[0].self_attn)
    size = HIDDEN // HEADS
    angle = ROPE_THETA ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    query = torch.cat([torch.ones_like(angle), torch.zeros_like(angle)])
    key = torch.cat([torch.cos(angle), torch.sin(angle)])
    with torch.no_grad():
        attention.q_proj.bias[:size] = strength * query
        attention.k_proj.bias[:size] = strength * key


def save_model(model: LlamaForCausalLM, folder: Path) -> None:
    """Write config and weights where ``from_pretrained`` finds them."""
    model.save_pretrained(str(folder))
