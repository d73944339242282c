"""Toy envs, tokenizers and models for the generator's tests. Importable by name, also from worker processes."""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from envgym import InfrastructureError, Message, Reply, Task, TextEnv

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


class Guess(TextEnv):
    """Guess a number below 20 in at most four turns; the env says higher or lower."""

    isolation = "inline"
    version = "3"

    def __init__(self, *, max_turns: int = 4, num_tasks: int = 6, prompt: str = "Guess a number.") -> None:
        super().__init__(max_turns=max_turns)
        self.stop_strings = ("</guess>",)
        self.num_tasks = num_tasks
        self.prompt = prompt

    def tasks(self, split: str) -> Sequence[Task]:
        count = self.num_tasks if split == "train" else 2
        return [Task(id=f"{split}-{n}", data={}, answer={"number": 3 * n % 20}) for n in range(count)]

    def open(self, task: Task) -> tuple[Message, ...]:
        self.low, self.high = 0, 20
        return (Message(role="user", content=self.prompt),)

    def respond(self, action: str) -> Reply:
        found = re.search(r"<guess>(\d+)</guess>", action)
        if not found:
            return Reply(observation=(Message(role="user", content="Say <guess>NUMBER</guess>."),))
        guess, number = int(found[1]), self.task.answer["number"]
        if guess == number:
            return Reply(
                reward=0.5, done=True, success=True, reward_terms={"right": 0.5}, metrics={"low": self.low}
            )
        self.low, self.high = (max(self.low, guess + 1), self.high) if guess < number else (self.low, guess)
        word = "higher" if guess < number else "lower"
        return Reply(observation=(Message(role="user", content=f"The answer is {word}."),), reward=0.05)

    def demonstrate(self, rng) -> Iterator[str]:
        yield f"Let me see. <guess>{rng.integers(self.low, self.high)}</guess>"
        yield f"<guess>{self.task.answer['number']}</guess>"


class Broken(Guess):
    """Guess, where each task breaks in the way that ``faults`` names for it, in its second turn."""

    deadline_s = 1.0

    def __init__(self, *, faults: Sequence[str] = (), max_turns: int = 4, num_tasks: int = 6) -> None:
        super().__init__(max_turns=max_turns, num_tasks=num_tasks)
        self.faults = tuple(faults)

    def respond(self, action: str) -> Reply:
        index = int(self.task.id.rpartition("-")[2])
        fault = self.faults[index] if index < len(self.faults) else ""
        if self.turn == 1:
            self._break(fault)
        return super().respond(action)

    def _break(self, fault: str) -> None:
        if fault == "raise":
            raise RuntimeError("a bug in the env")
        if fault == "outage":
            raise InfrastructureError("the retriever is down")
        if fault == "sleep":
            time.sleep(60)
        if fault == "regex":
            re.match(r"(a+)+$", "a" * 64 + "b")
        if fault == "exit":
            raise SystemExit(7)

    def step(self, action: str):
        observation, reward, terminated, truncated, info = super().step(action)
        index = int(self.task.id.rpartition("-")[2])
        is_nan = index < len(self.faults) and self.faults[index] == "nan" and self.turn == 2
        return observation, float("nan") if is_nan else reward, terminated, truncated, info


class BrokenInProcess(Broken):
    """The same in a worker process."""

    isolation = "process"


class BrokenInThread(Broken):
    """The same in a thread."""

    isolation = "thread"


class TimeLimited(Guess):
    """Guess under a limit from outside the env: it truncates after two turns."""

    def step(self, action: str):
        observation, reward, terminated, _, info = super().step(action)
        truncated = not terminated and self.turn == 2
        if truncated:
            info |= {"success": None, "metrics": {}}
        return observation, reward, terminated, truncated, info


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
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=tied, max_position_embeddings=context, initializer_range=0.2,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
        dtype="float32", **changes,
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
