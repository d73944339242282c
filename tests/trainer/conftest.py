"""Rollouts by hand, and a model folder small enough to train in a test."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from envgym_generator.types import (
    GeneratorOutput,
    Message,
    Rollout,
    RolloutRequest,
    SamplingParams,
    Segment,
    Status,
    Turn,
)

SAMPLING = SamplingParams(
    temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_turn_tokens=8, max_rollout_tokens=64, stop=(),
    append_eos_after_stop=True,
)  # fmt: skip


def build_turn(start: int, end: int, reward: float = 0.0) -> Turn:
    return Turn(
        start=start, end=end, action="a", observation=(), reward=reward, reward_terms={}, finish_reason="stop",
        stop_string=None, policy_version=0,
    )  # fmt: skip


def build_segment(
    mask: Sequence[bool],
    rewards: Sequence[float] | None = None,
    logprobs: Sequence[float] | None = None,
    prompt: Sequence[int] = (1, 2),
    ids: Sequence[int] | None = None,
) -> Segment:
    """A segment whose runs of true mask are its turns."""
    earned = tuple(rewards or (0.0,) * len(mask))
    starts = [i for i, on in enumerate(mask) if on and (i == 0 or not mask[i - 1])]
    ends = [i + 1 for i, on in enumerate(mask) if on and (i + 1 == len(mask) or not mask[i + 1])]
    turns = tuple(build_turn(s, e, sum(earned[s:e])) for s, e in zip(starts, ends, strict=True))
    return Segment(
        prompt_ids=tuple(prompt),
        completion_ids=tuple(ids or range(3, 3 + len(mask))),
        loss_mask=tuple(mask),
        rewards=earned,
        rollout_logprobs=None if logprobs is None else tuple(logprobs),
        turns=turns,
    )


def build_rollout(
    *segments: Segment,
    task: int = 0,
    sample: int = 0,
    status: Status = "terminated",
    excluded_by: str | None = None,
) -> Rollout:
    return Rollout(
        request=RolloutRequest(env="toy", split="train", task_index=task, sample_index=sample, seed=0),
        task_id=f"task-{task}",
        messages=(Message(role="user", content="q"),),
        segments=segments,
        status=status,
        success=None,
        metrics={},
        excluded_by=excluded_by,
        error="Traceback" if status == "failed" else None,
    )


def build_output(*rollouts: Rollout, fingerprint: str = "") -> GeneratorOutput:
    return GeneratorOutput(
        rollouts=rollouts, sampling=SAMPLING, policy_version=0, envs={}, model_fingerprint=fingerprint, metrics={}
    )


@pytest.fixture
def make_segment() -> Callable[..., Segment]:
    return build_segment


@pytest.fixture
def make_rollout() -> Callable[..., Rollout]:
    return build_rollout


@pytest.fixture
def make_output() -> Callable[..., GeneratorOutput]:
    return build_output


CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of some 20,000 random parameters over bytes, with a ChatML template."""
    import torch
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={token: index for index, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    fast.chat_template = CHATML
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(fast), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=True, initializer_range=0.2,
            eos_token_id=fast.eos_token_id, pad_token_id=fast.pad_token_id, bos_token_id=None,
        )
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("model") / "toy"
    model.save_pretrained(str(folder))
    fast.save_pretrained(str(folder))
    assert json.loads((folder / "config.json").read_text())["model_type"] == "llama"
    return folder


LETTERS = '''
from envgym import Message, Reply, SetupError, Task, TextEnv

class Letters(TextEnv):
    """Two turns; each earns half the share of letters in the action. Its tasks differ in the prompt only."""
    isolation = "inline"

    def __init__(self, max_turns=2, size=8, split="train"):
        if size < 0:
            raise SetupError(f"env.size={size} must be at least 0")
        super().__init__(max_turns=max_turns, split=split)
        self._size = size

    def tasks(self, split):
        return [Task(id=f"{split}-{i}", data={"word": "ab" * (i + 1)}, answer={}) for i in range(self._size)]

    def open(self, task):
        return (Message(role="user", content=task.data["word"]),)

    def respond(self, action):
        share = sum(c.isascii() and c.isalpha() for c in action) / max(1, len(action))
        return Reply(observation=(Message(role="user", content="go on"),), reward=share / self.max_turns,
                     success=share > 0.5 if self.turn + 1 == self.max_turns else None)

    def demonstrate(self, rng):
        while True:
            yield "abc"
'''


@pytest.fixture(scope="session")
def letters_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that holds an installed package with the env ``letters``."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "letters_env.py").write_text(LETTERS)
    facts = folder / "letters_env-0.1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: letters-env\nVersion: 0.1\n")
    (facts / "entry_points.txt").write_text("[envgym.envs]\nletters = letters_env:Letters\n")
    return folder
