import math

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from envgym_generator.types import SetupError
from envgym_trainer.batch import Row, collate
from envgym_trainer.logprob import TrainedTokenModel, check_plain_head, logprobs_and_entropies

LONG = Row(ids=(5, 9, 2, 7, 7, 3, 1), trained=(2, 3, 6), rollout=0, segment=0)
SHORT = Row(ids=(4, 8, 6), trained=(1, 2), rollout=1, segment=0)


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def reference(model, row, temperature):
    """Log-probabilities from the full logits of one unpadded sequence."""
    logits = model(input_ids=torch.tensor([row.ids])).logits[0] / temperature
    full = torch.log_softmax(logits, dim=-1)
    return [full[position - 1, row.ids[position]].item() for position in row.trained]


def test_logprobs_and_entropies_by_hand():
    # softmax([ln 1, ln 3] / 1) = (1/4, 3/4); entropy = .25 ln 4 + .75 ln(4/3) = .5623.
    logprobs, entropies = logprobs_and_entropies(torch.tensor([[0.0, math.log(3.0)]]), torch.tensor([1]), 1.0)
    assert logprobs.item() == pytest.approx(math.log(0.75))
    assert entropies.item() == pytest.approx(0.56234, abs=1e-5)


def test_logits_are_divided_by_the_temperature():
    # At temperature 2, ln 9 counts as ln 3.
    logprobs, _ = logprobs_and_entropies(torch.tensor([[0.0, math.log(9.0)]]), torch.tensor([1]), 2.0)
    assert logprobs.item() == pytest.approx(math.log(0.75))


def test_a_forbidden_token_has_no_part_in_the_entropy():
    _, entropies = logprobs_and_entropies(torch.tensor([[0.0, -math.inf]]), torch.tensor([0]), 1.0)
    assert entropies.item() == 0.0


@pytest.mark.parametrize("chunk_tokens", [1, 2, 100])
def test_padded_chunked_and_single_rows_give_equal_logprobs(model_folder, chunk_tokens):
    model = load(model_folder)
    found, _ = TrainedTokenModel(model, chunk_tokens)(collate([LONG, SHORT]), temperature=0.7)
    expected = reference(model, LONG, 0.7) + reference(model, SHORT, 0.7)
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


def test_chunks_give_the_gradient_of_the_whole(model_folder):
    gradients = []
    for chunk_tokens in (2, 100):
        model = load(model_folder)
        logprobs, entropies = TrainedTokenModel(model, chunk_tokens)(
            collate([LONG, SHORT]), temperature=1.0, entropy_gradient=True
        )
        (logprobs.sum() + entropies.sum()).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for whole, chunked in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, chunked, rtol=1e-4, atol=1e-6)


def test_what_padding_holds_does_not_matter(model_folder):
    tokens = collate([LONG, SHORT])
    model = TrainedTokenModel(load(model_folder), chunk_tokens=100)
    before, _ = model(tokens, temperature=1.0)
    tokens.input_ids[1, 3:] = 11
    after, _ = model(tokens, temperature=1.0)
    assert torch.equal(before, after)


def test_a_plain_head_is_accepted_and_a_scaled_one_named(model_folder):
    check_plain_head(load(model_folder))

    class Scaled(LlamaForCausalLM):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits = output.logits * 0.5
            return output

    config = LlamaConfig(
        vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    with pytest.raises(SetupError, match="Scaled"):
        check_plain_head(Scaled(config))
