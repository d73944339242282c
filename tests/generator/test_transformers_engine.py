import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from toy_models import make_model, make_tokenizer, save_model_folder

from envgym import SetupError
from envgym_generator.engines.protocol import TurnRequest, TurnSample
from envgym_generator.engines.transformers import TransformersEngine, build_engine, split_by_length
from envgym_generator.types import RolloutRequest, SamplingParams

SAMPLING = SamplingParams(
    temperature=0.8, top_p=1.0, top_k=0, min_p=0.0, max_turn_tokens=24, max_rollout_tokens=400, stop=(),
    append_eos_after_stop=True,
)  # fmt: skip


def make_engine(model=None, tokenizer=None, eos_ids=(2,), **changes) -> TransformersEngine:
    tokenizer = tokenizer or make_tokenizer()
    model = model or make_model(tokenizer)
    return TransformersEngine(model.eval(), tokenizer, eos_ids, **changes)


def make_request(number: int, prompt: Sequence[int], *, turn: int = 0, **changes) -> TurnRequest:
    async def demonstrate() -> str:
        raise AssertionError("not asked")

    values = {
        "rollout": RolloutRequest(env="toy", split="train", task_index=number, sample_index=0, seed=number),
        "turn": turn,
        "prompt_ids": tuple(prompt),
        "max_tokens": 24,
        "stop": (),
        "sampling": SAMPLING,
        "seed": 1000 + number,
        "demonstrate": demonstrate,
    }
    return TurnRequest(**values | changes)


def prompts(count: int) -> list[list[int]]:
    """Prompts of lengths 3, 8, 13, …"""
    return [[(7 * number + 3 * place) % 300 + 3 for place in range(3 + 5 * number)] for number in range(count)]


def sample(engine: TransformersEngine, *requests: TurnRequest) -> list[TurnSample]:
    return asyncio.run(engine.sample(requests))


def plain_logprobs(model, prompt: Sequence[int], ids: Sequence[int], temperature: float) -> list[float]:
    """Of each id, by one forward pass without padding or cache."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *ids]]), use_cache=False).logits[0].float()
    logprobs = torch.log_softmax(logits / temperature, dim=-1)
    return [float(logprobs[len(prompt) - 1 + place, id]) for place, id in enumerate(ids)]


def forced_model(tokenizer, script: Sequence[int]):
    """A model that says ``script`` id by id, whatever it is fed: its logits follow from the position alone."""
    model = make_model(tokenizer, tied=False, context=64)
    start = 8  # the length of the prompts that it is used with

    def forward(input_ids, position_ids, cache, **kwargs):
        logits = torch.zeros((*input_ids.shape, len(tokenizer)))
        for row, column in torch.cartesian_prod(*map(torch.arange, input_ids.shape)).tolist():
            place = int(position_ids[row, column]) - start + 1
            if 0 <= place < len(script):
                logits[row, column, script[place]] = 50.0
        kwargs["logits_to_keep"] = 0
        output = original(input_ids=input_ids, position_ids=position_ids, cache=cache, **kwargs)
        output.logits = logits
        return output

    original = model.forward
    model.forward = forward
    return model


def test_logprobs_are_those_of_a_plain_forward_pass_after_temperature():
    model = make_model(make_tokenizer())
    samples = sample(make_engine(model), *(make_request(n, prompt) for n, prompt in enumerate(prompts(9))))
    for prompt, one in zip(prompts(9), samples, strict=True):
        expected = plain_logprobs(model, prompt, one.ids, temperature=0.8)
        assert one.logprobs == pytest.approx(expected, abs=1e-5)


def test_request_gets_the_same_tokens_alone_and_in_any_batch():
    engine = make_engine()
    requests = [make_request(n, prompt) for n, prompt in enumerate(prompts(9))]
    alone = [sample(make_engine(), request)[0] for request in requests]
    together = sample(engine, *requests)
    backwards = sample(make_engine(max_batch_tokens=64), *reversed(requests))[::-1]
    assert [one.ids for one in alone] == [one.ids for one in together] == [one.ids for one in backwards]


def test_same_batch_twice_gives_the_same_bits():
    requests = [make_request(n, prompt) for n, prompt in enumerate(prompts(5))]
    assert sample(make_engine(), *requests) == sample(make_engine(), *requests)


def test_seed_decides_the_tokens():
    first, again, other = sample(
        make_engine(), make_request(0, [5, 6]), make_request(1, [5, 6], seed=1000), make_request(2, [5, 6])
    )
    assert first.ids == again.ids
    assert first.ids != other.ids


def test_states_of_an_earlier_turn_lead_to_the_same_logprobs_as_computing_anew():
    model = make_model(make_tokenizer())
    engine, forgetful = make_engine(model), make_engine(model, kept_mib=0)
    asked = prompts(6)
    for turn in range(3):
        requests = [make_request(n, prompt, turn=turn, seed=10 * turn + n) for n, prompt in enumerate(asked)]
        samples = sample(engine, *requests)
        assert [one.ids for one in samples] == [one.ids for one in sample(forgetful, *requests)]
        for prompt, one in zip(asked, samples, strict=True):
            assert one.logprobs == pytest.approx(plain_logprobs(model, prompt, one.ids, 0.8), abs=1e-5)
        # Observations of different lengths, so that padding lies between old and new ids.
        asked = [[*p, *one.ids, *range(5, 6 + n)] for n, (p, one) in enumerate(zip(asked, samples, strict=True))]


def test_states_are_not_reused_behind_other_ids():
    model = make_model(make_tokenizer())
    engine = make_engine(model)
    (first,) = sample(engine, make_request(0, [5, 6, 7]))
    changed = [5, 9, 7, *first.ids]
    (second,) = sample(engine, make_request(0, changed, turn=1))
    assert second.logprobs == pytest.approx(plain_logprobs(model, changed, second.ids, 0.8), abs=1e-5)


def test_released_rollout_leaves_no_states_behind():
    engine = make_engine()
    request = make_request(0, [5, 6, 7])
    sample(engine, request)
    assert engine.kept_bytes > 0
    engine.release(request.rollout)
    assert engine.kept_bytes == 0


def test_states_stay_within_their_memory():
    engine = make_engine(kept_mib=1)
    # 2 layers, keys and values of 1 head of 16 float32 values: 256 bytes an id, so 400 ids are about 0.1 MiB.
    for number in range(15):
        sample(engine, make_request(number, [3] * 400, max_tokens=1))
    assert 0.8 * 2**20 < engine.kept_bytes <= 2**20


def test_model_with_a_sliding_window_samples_with_the_right_logprobs():
    tokenizer = make_tokenizer()
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    model = MistralForCausalLM(
        MistralConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, sliding_window=8, max_position_embeddings=256,
            initializer_range=0.2, eos_token_id=2,
        )
    )  # fmt: skip
    engine = make_engine(model, tokenizer)
    asked = prompts(4)
    for turn in range(2):
        samples = sample(engine, *(make_request(n, p, turn=turn) for n, p in enumerate(asked)))
        for prompt, one in zip(asked, samples, strict=True):
            assert one.logprobs == pytest.approx(plain_logprobs(model, prompt, one.ids, 0.8), abs=1e-5)
        asked = [[*prompt, *one.ids, 9] for prompt, one in zip(asked, samples, strict=True)]


def test_temperature_zero_takes_the_most_probable_token_with_probability_one():
    model = make_model(make_tokenizer())
    (one,) = sample(make_engine(model), make_request(0, [5, 6], sampling=replace(SAMPLING, temperature=0.0)))
    ids = [5, 6]
    for id in one.ids:
        with torch.no_grad():
            assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == id
        ids.append(id)
    assert set(one.logprobs) == {0.0}


def test_turn_ends_by_length_with_the_ids_it_was_allowed():
    (one,) = sample(make_engine(eos_ids=()), make_request(0, [5, 6], max_tokens=7))
    assert (len(one.ids), one.finish_reason, one.stop_string) == (7, "length", None)


def test_every_eos_id_ends_a_turn_also_one_of_the_generation_config():
    tokenizer = make_tokenizer()
    for eos in (2, 9, 11):
        model = forced_model(tokenizer, [70, 71, eos, 72])
        model.generation_config.eos_token_id = [2, 11]
        (one,) = sample(make_engine(model, tokenizer, eos_ids=(9,)), make_request(0, range(40, 48)))
        assert one.ids == (70, 71, eos)
        assert one.text == tokenizer.decode([70, 71])
        assert (one.finish_reason, one.stop_string) == ("stop", None)


def ids_of(tokenizer, *texts: str) -> list[int]:
    return [id for text in texts for id in tokenizer(text, add_special_tokens=False)["input_ids"]]


def say(texts: Sequence[str], stop: tuple[str, ...], *, behind: Sequence[int] = (), max_tokens: int = 24):
    """What becomes of a turn in which the model says these texts, encoded one by one."""
    tokenizer = make_tokenizer()
    script = [*ids_of(tokenizer, *texts), *behind]
    (one,) = sample(
        make_engine(forced_model(tokenizer, script), tokenizer),
        make_request(0, range(40, 48), stop=stop, max_tokens=max_tokens),
    )
    return one, script


def test_stop_string_that_is_a_token_ends_the_turn_with_it():
    one, script = say(["a", "</guess>", "b"], ("</guess>",))
    assert one.ids == tuple(script[:2])
    assert (one.text, one.finish_reason, one.stop_string) == ("a</guess>", "stop", "</guess>")


def test_stop_string_that_ends_inside_a_token_keeps_the_token_and_cuts_the_text():
    assert len(ids_of(make_tokenizer(), "</guess>\n")) == 1
    one, script = say(["a", "</guess>\n", "b"], ("</guess>",))
    assert one.ids == tuple(script[:2])
    assert (one.text, one.stop_string) == ("a</guess>", "</guess>")


def test_stop_string_across_tokens_ends_the_turn_at_its_last_one():
    one, script = say(["<", "/", "g", "u", "e", "s", "s", ">", "b"], ("</guess>",))
    assert one.ids == tuple(script[:8])
    assert (one.text, one.stop_string) == ("</guess>", "</guess>")


def test_stop_string_of_characters_in_several_tokens_is_found():
    tokenizer = make_tokenizer()
    assert len(ids_of(tokenizer, "終")) == 3
    one, script = say(["a", "終", "b"], ("終",))
    assert one.ids == tuple(script[:4])
    assert (one.text, one.stop_string) == ("a終", "終")


def test_of_two_stop_strings_in_one_token_the_one_complete_first_counts():
    one, _ = say(["a", "</guess>\n", "b"], ("\n", "</guess>"))
    assert (one.text, one.stop_string) == ("a</guess>", "</guess>")


def test_stop_string_in_the_last_token_allowed_is_no_truncation():
    one, _ = say(["a", "</guess>", "b"], ("</guess>",), max_tokens=2)
    assert (one.finish_reason, one.stop_string) == ("stop", "</guess>")


def test_stop_string_followed_by_eos_ends_before_the_eos():
    one, script = say(["a", "</guess>"], ("</guess>",), behind=[2])
    assert one.ids == tuple(script[:2])


def test_half_a_stop_string_at_the_length_limit_is_a_length_end():
    one, _ = say(["<", "/", "g", "u"], ("</guess>",), max_tokens=3)
    assert (one.text, one.finish_reason, one.stop_string) == ("</g", "length", None)


def test_new_weights_change_the_logprobs_to_theirs_and_the_fingerprint():
    tokenizer = make_tokenizer()
    model, other = make_model(tokenizer), make_model(tokenizer, seed=1)
    engine = make_engine(model, tokenizer)
    before = engine.describe().model_fingerprint
    request = make_request(0, [5, 6, 7])
    (first,) = sample(engine, request)
    engine.update_weights(1, ((name, tensor.clone()) for name, tensor in other.named_parameters()))
    followed = make_request(0, [5, 6, 7, *first.ids, 9], turn=1)
    (second,) = sample(engine, followed)
    expected = plain_logprobs(other, followed.prompt_ids, second.ids, 0.8)
    assert second.logprobs == pytest.approx(expected, abs=1e-5)
    assert engine.describe().model_fingerprint != before
    assert engine.describe().model_fingerprint == make_engine(other, tokenizer).describe().model_fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda named: named[1:], "lack 1 parameters, model.embed_tokens.weight"),
        (lambda named: [*named, ("extra", torch.zeros(1))], "extra .*no such parameter"),
        (lambda named: [(named[0][0], torch.zeros(1)), *named[1:]], r"\(1,\), but shape"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(change, message):
    model = make_model(make_tokenizer())
    with pytest.raises(ValueError, match=message):
        make_engine(model).update_weights(1, change(list(model.named_parameters())))


def test_calls_that_wait_at_once_are_sampled_as_one_batch():
    engine = make_engine()
    requests = [make_request(n, prompt) for n, prompt in enumerate(prompts(5))]

    async def ask_all() -> list[list[TurnSample]]:
        return await asyncio.gather(*(engine.sample([request]) for request in requests))

    apart = [samples[0] for samples in asyncio.run(ask_all())]
    assert apart == sample(make_engine(), *requests)


def test_model_folder_is_loaded_with_the_asked_precision(tmp_path):
    tokenizer = make_tokenizer()
    folder = save_model_folder(tmp_path / "model", tokenizer=tokenizer)
    half = build_engine(str(folder), tokenizer, (2,), dtype="bfloat16")
    (one,) = sample(half, make_request(0, [5, 6]))
    full = build_engine(str(folder), tokenizer, (2,))
    expected = sample(full, make_request(0, [5, 6]))[0]
    assert one.logprobs[0] == pytest.approx(expected.logprobs[0], abs=0.1)
    assert one.logprobs != expected.logprobs


def test_folder_without_a_model_and_unknown_precision_are_refused(tmp_path):
    with pytest.raises(SetupError, match="cannot be loaded"):
        build_engine(str(tmp_path), make_tokenizer(), (2,))
    with pytest.raises(SetupError, match="float16 must be float32 or bfloat16"):
        build_engine(str(tmp_path), make_tokenizer(), (2,), dtype="float16")
    with pytest.raises(SetupError, match="device=tpu9"):
        build_engine(str(tmp_path), make_tokenizer(), (2,), device="tpu9")


def test_batches_of_like_length_stay_within_their_tokens():
    assert list(split_by_length([4, 9, 5, 4], max_tokens=12)) == [[0, 3], [2], [1]]
    assert list(split_by_length([20], max_tokens=12)) == [[0]]
