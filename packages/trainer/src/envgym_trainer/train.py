"""Reinforcement learning: play, judge, update, send the new weights, again.

What of GRPO as published is off unless asked for: the reference policy and its KL term, several updates per step,
and the division by the standard deviation.
"""

import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from envgym_generator.types import (
    Generator,
    GeneratorDescription,
    GeneratorInput,
    GeneratorOutput,
    InfrastructureError,
)
from envgym_trainer.config import TrainConfig
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy, OptimizerSection, Reference
from envgym_trainer.determinism import seed_everything
from envgym_trainer.errors import RunError
from envgym_trainer.evaluate import eval_metrics, eval_text, evaluate, play_together, sampling_params, split_sizes
from envgym_trainer.interruption import Interruption
from envgym_trainer.model import load_model, save_model
from envgym_trainer.parity import Parity, compare, limits_of
from envgym_trainer.progress import Progress
from envgym_trainer.ranks import ALONE, Ranks
from envgym_trainer.run_folder import RunFolder
from envgym_trainer.sampler import train_requests
from envgym_trainer.schedule import learning_rate
from envgym_trainer.update import (
    Gradient,
    TrainingRow,
    accumulate_gradient,
    split_into_updates,
    training_rows,
)
from envgym_trainer.weights import send_weights

Row = dict[str, float | int]
"""One line of ``metrics.jsonl``."""


def start(
    config: TrainConfig,
    generator: Generator,
    description: GeneratorDescription,
    model_folder: Path,
    folder: RunFolder,
    progress: Progress,
    ranks: Ranks = ALONE,
) -> None:
    """Load the policy and train it.

    Args:
        config: checked.
        generator: not yet sent any weights.
        description: its own.
        model_folder: the policy at version 0.
        folder: made.
        progress: told what happens.
        ranks: who train it together.
    """
    ranks.wait_at_most(config.rank_timeout_s)
    seed_everything(config.seed, deterministic=config.deterministic)
    section = config.algorithm
    optimizer = OptimizerSection(
        betas=(section.adam_beta1, section.adam_beta2),
        eps=section.adam_eps,
        weight_decay=section.weight_decay,
        max_grad_norm=section.max_grad_norm,
        dtype=config.model.dtype,
        deepspeed=config.deepspeed,
    )
    chunk = section.logits_chunk_tokens
    policy = DeepSpeedPolicy(load_model(model_folder), optimizer, chunk_tokens=chunk)
    reference = Reference(load_model(model_folder), optimizer, chunk_tokens=chunk) if section.kl_coef > 0 else None
    Training(config, generator, description, policy, reference, model_folder, folder, progress, ranks).run()


class Training:
    """One run of ``trainer-train``: a generator that plays, a policy that is updated, a folder that remembers.

    Steps count from 1. Step n plays with version n − 1 of the weights and makes version n.
    """

    def __init__(
        self,
        config: TrainConfig,
        generator: Generator,
        description: GeneratorDescription,
        policy: DeepSpeedPolicy,
        reference: Reference | None,
        model_folder: Path,
        folder: RunFolder,
        progress: Progress,
        ranks: Ranks = ALONE,
    ) -> None:
        """Put the parts together; nothing is played yet.

        Args:
            config: checked.
            generator: not yet sent any weights.
            description: its own.
            policy: at version 0.
            reference: what the policy is kept close to, where it is.
            model_folder: where its tokenizer files are copied from.
            folder: made.
            progress: told what happens.
            ranks: who train together; the first one writes the folder.
        """
        self._ranks = ranks
        self._config = config
        self._generator = generator
        self._description = description
        self._policy = policy
        self._reference = reference
        self._model_folder = model_folder
        self._folder = folder
        self._progress = progress
        self._version = 0
        self._between_versions = False
        self._saved_version: int | None = None
        self._fingerprint = ""
        self._said: set[str] = set()
        self._interruption = Interruption()

    def run(self) -> None:
        """Train for all steps, or until Ctrl-C. The weights reached are saved in either case.

        Raises:
            RunError: if the run cannot go on. Weights that half a step has changed are not saved.
            InfrastructureError: if too many rollouts of a step failed.
            KeyboardInterrupt: after Ctrl-C, once everything is saved.
        """
        with self._interruption:
            try:
                self._loop()
            except (RunError, InfrastructureError, KeyboardInterrupt):
                if self._version and not self._between_versions and not self._interruption.insisted:
                    self._save_checkpoint()
                raise
            self._save_checkpoint()

    def _loop(self) -> None:
        self._send_weights()
        if first := self._evaluate():
            self._append_metrics({"step": 0, **first})
            self._progress.say(f"before training: {eval_text(first)}  {first['time/eval_s']:.1f} s")
        steps = self._config.steps
        with self._progress.track("training", steps, every_step=True) as advance:
            for step in range(1, steps + 1):
                row = self._step(step)
                self._append_metrics(row)
                advance(step_text(row, steps))
                if self._ranks.any(self._interruption.requested, "the end of a step"):
                    raise KeyboardInterrupt

    def _append_metrics(self, row: Row) -> None:
        if self._ranks.is_first:
            self._folder.append_metrics(row)

    def _step(self, step: int) -> Row:
        times: dict[str, float] = {}
        with stopwatch(times, "time/step_s"):
            with stopwatch(times, "time/generate_s"):
                output = self._play(step)
            if self._ranks.is_first:
                self._folder.save_rollouts(step, output)
            with stopwatch(times, "time/train_s"):
                trained, num_tokens = self._update(step, output)
            self._version, self._between_versions = step, False
            with stopwatch(times, "time/sync_s"):
                self._send_weights()
        row: Row = {"step": step, **output.metrics, **trained}
        if is_due(step, self._config.eval.every, self._config.steps):
            row |= self._evaluate()
        if is_due(step, self._config.checkpoint.every, self._config.steps):
            self._save_checkpoint()
        return row | times | rates(output.metrics, num_tokens, times)

    def _play(self, step: int) -> GeneratorOutput:
        config = self._config
        requests = train_requests(
            step,
            seed=config.seed,
            weights=self._env_weights(),
            num_tasks=split_sizes(self._description, "train"),
            tasks_per_step=config.tasks_per_step,
            group_size=config.group_size,
        )
        with self._interruption.raised_here():
            return play_together(
                self._generator,
                GeneratorInput(
                    requests=requests,
                    sampling=sampling_params(config.sampling),
                    policy_version=self._version,
                    step=step,
                    purpose="train",
                ),
                self._ranks,
            )

    def _env_weights(self) -> dict[str, float]:
        """By env; 1 for those that the config does not mention, as when saved rollouts are replayed."""
        shares = self._config.envs
        return {env: shares[env].weight if env in shares else 1.0 for env in self._description.num_tasks}

    def _update(self, step: int, output: GeneratorOutput) -> tuple[dict[str, float], int]:
        """Update the policy by the rollouts of a step; metrics, and the number of ids computed."""
        section = self._config.algorithm
        rows = training_rows(output, section, seed=self._config.seed, step=step)
        rate = learning_rate(
            section.lr, section.schedule, step, warmup_steps=section.warmup_steps, total_steps=self._config.steps
        )
        gradients: list[Gradient] = []
        norms: list[float] = []
        parity: Parity | None = None
        for rows_of_update in split_into_updates(rows, output, section.updates_per_step):
            gradient = accumulate_gradient(
                self._policy, rows_of_update, section, output.sampling.temperature, self._reference, self._ranks
            )
            if not gradients:  # the weights are still those that sampled
                parity = self._check_parity(step, output, rows_of_update, gradient)
            self._between_versions = True
            with self._ranks.at("the update of the weights"):
                norms.append(self._policy.step(rate))
            gradients.append(gradient)
        if not gradients:
            self._say_once("a step had no token to train on, and changed nothing")
            return {}, 0
        return update_metrics(gradients, norms, rate) | parity_metrics(parity), sum(
            g.num_tokens for g in gradients
        )

    def _check_parity(
        self, step: int, output: GeneratorOutput, rows: list[TrainingRow], gradient: Gradient
    ) -> Parity | None:
        """The parity gate; None where there is nothing to compare.

        Raises:
            RunError: if a token is over the threshold, in the first step or with ``parity.abort_later``.
        """
        if output.model_fingerprint != self._fingerprint:
            self._say_once("parity is not checked: the rollouts were sampled by other weights than those trained")
            return None
        known = [number for number, row in enumerate(rows) if row.sampling_logprobs is not None]
        if not known:
            self._say_once("parity is not checked: the rollouts have no log-probabilities")
            return None
        limits = limits_of(self._config.parity, self._config.model.dtype)
        parity = compare(
            output,
            [rows[number].row for number in known],
            [gradient.logprobs[number] for number in known],
            limits.of_one_token,
        )
        if not parity.within(limits) and (step == 1 or self._config.parity.abort_later):
            raise RunError(
                f"step {step}: trainer and generator disagree by up to {parity.max_abs_diff:.2e}, and by "
                f"{parity.mean_abs_diff:.2e} in the mean (allowed: {limits}); first in {parity.first_divergent}"
            )
        return parity

    def _send_weights(self) -> None:
        policy = self._policy
        with self._ranks.at("sending the weights to the generator"):
            self._fingerprint = send_weights(
                self._generator, self._version, policy.model.config, policy.named_parameters()
            )

    def _evaluate(self) -> dict[str, float]:
        """Play held-out tasks; nothing where none are wanted, or where Ctrl-C cuts it short."""
        section = self._config.eval
        if section.tasks == 0:
            return {}
        times: dict[str, float] = {}
        try:
            with self._interruption.raised_here(), stopwatch(times, "time/eval_s"):
                output = evaluate(self._generator, self._description, section, self._version, self._ranks)
        except KeyboardInterrupt:
            if self._version == 0:
                raise
            return {}  # the step before it is whole, and the loop ends behind it
        if self._ranks.is_first:
            self._folder.save_eval(self._version, output)
        return eval_metrics(output.metrics) | times

    def _save_checkpoint(self) -> None:
        def write(target: Path) -> None:
            save_model(self._policy.model, self._policy.named_parameters(), self._model_folder, target)

        if self._saved_version == self._version:
            return
        self._saved_version = self._version
        if not self._ranks.is_first:
            with self._ranks.at("saving the weights"):
                for _ in self._policy.named_parameters():  # each is gathered from all ranks
                    pass
            return
        path = self._folder.save_checkpoint(self._version, write)
        self._say_once(f"weights of version {self._version} are in {path}")

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._progress.say(line)


def is_due(step: int, every: int, steps: int) -> bool:
    """Whether something is done behind a step: at every ``every``-th, and behind the last.

    >>> [step for step in range(1, 8) if is_due(step, 3, 7)], [step for step in range(1, 8) if is_due(step, 0, 7)]
    ([3, 6, 7], [7])
    """
    return step == steps or (every > 0 and step % every == 0)


def update_metrics(gradients: list[Gradient], norms: list[float], rate: float) -> dict[str, float]:
    """Means over a step's updates, each of which counts once."""
    count = len(gradients)
    divergences = [gradient.kl for gradient in gradients if gradient.kl is not None]
    return {
        **({"loss/kl": sum(divergences) / count} if divergences else {}),
        "loss/policy": sum(gradient.loss for gradient in gradients) / count,
        "loss/entropy": sum(gradient.entropy for gradient in gradients) / count,
        "loss/clipped_fraction": sum(gradient.clipped_fraction for gradient in gradients) / count,
        "grad/norm": sum(norms) / count,
        "grad/learning_rate": rate,
        "tokens/padding_fraction": sum(gradient.padding_fraction for gradient in gradients) / count,
    }


def parity_metrics(parity: Parity | None) -> dict[str, float]:
    """The two numbers of the parity gate, where it was checked."""
    if parity is None:
        return {}
    return {
        "parity/logprob_abs_diff_mean": parity.mean_abs_diff,
        "parity/logprob_abs_diff_max": parity.max_abs_diff,
    }


@contextmanager
def stopwatch(times: dict[str, float], name: str) -> Iterator[None]:
    """Write the seconds spent inside to ``times[name]``."""
    started = time.perf_counter()
    yield
    times[name] = time.perf_counter() - started


def rates(metrics: Mapping[str, float], num_tokens: int, times: Mapping[str, float]) -> dict[str, float]:
    """Tokens per second of both halves of a step, and the peak of this process's memory."""
    return {
        "throughput/sampled_tokens_per_s": metrics.get("tokens/sampled_total", 0.0) / times["time/generate_s"],
        "throughput/trained_tokens_per_s": num_tokens / times["time/train_s"],
        "memory/peak_rss_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,  # Linux counts in KiB
    }


def step_text(row: Mapping[str, float], steps: int) -> str:
    """What is shown of a step."""
    shown = (
        ("reward", "reward/mean", ".3f"),
        ("success", "reward/success_rate", ".1%"),
        ("loss", "loss/policy", "+.1e"),
        ("grad", "grad/norm", ".3f"),
        ("parity", "parity/logprob_abs_diff_max", ".0e"),
        ("failed", "rollout/failed", ".0f"),
        ("eval success", "eval/success_rate", ".1%"),
    )
    parts = [f"{label} {row[key]:{form}}" for label, key, form in shown if key in row]
    return "  ".join([f"step {row['step']:>{len(str(steps))}}/{steps}", *parts, f"{row['time/step_s']:.1f} s"])
