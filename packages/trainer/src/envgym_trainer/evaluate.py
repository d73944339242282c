"""Playing held-out tasks with the policy as it is."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from envgym_generator.types import (
    Generator,
    GeneratorDescription,
    GeneratorInput,
    GeneratorOutput,
    InfrastructureError,
    SamplingParams,
    SetupError,
)
from envgym_trainer.config import EvalConfig, EvalSection, SamplingSection
from envgym_trainer.merge import merge_outputs
from envgym_trainer.model_folder import version_of
from envgym_trainer.progress import Progress
from envgym_trainer.ranks import ALONE, Ranks, share_of_groups
from envgym_trainer.run_folder import RunFolder
from envgym_trainer.sampler import eval_requests


def evaluate(
    generator: Generator,
    description: GeneratorDescription,
    section: EvalSection,
    version: int,
    ranks: Ranks = ALONE,
) -> GeneratorOutput:
    """Play the evaluation tasks: the same tasks with the same seeds at every call.

    Args:
        generator: with the weights to be evaluated.
        description: says how many tasks there are.
        section: how many of them to play, and how to sample.
        version: of the weights.
        ranks: who share the tasks.
    """
    requests = eval_requests(
        seed=section.seed,
        num_tasks=split_sizes(description, "eval"),
        tasks=section.tasks,
        samples=section.samples,
    )
    return play_together(
        generator,
        GeneratorInput(
            requests=requests,
            sampling=sampling_params(section.sampling),
            policy_version=version,
            step=version,
            purpose="eval",
        ),
        ranks,
    )


def play_together(generator: Generator, wanted: GeneratorInput, ranks: Ranks) -> GeneratorOutput:
    """Play the requests, each rank its own whole groups, and give every rank all rollouts.

    Raises:
        InfrastructureError: on every rank, if it happened on one.
        KeyboardInterrupt: likewise.
    """
    if ranks.size == 1:
        return generator.generate(wanted)
    own = share_of_groups([request.group for request in wanted.requests], ranks.rank, ranks.size)
    outcome: GeneratorOutput | InfrastructureError | KeyboardInterrupt | None = None
    try:
        if own:
            outcome = generator.generate(replace(wanted, requests=tuple(wanted.requests[index] for index in own)))
    except (InfrastructureError, KeyboardInterrupt) as error:
        outcome = error
    outcomes = ranks.gather(outcome, f"gathering the rollouts of {wanted.purpose} step {wanted.step}")
    for one in outcomes:
        if isinstance(one, InfrastructureError | KeyboardInterrupt):
            raise one
    return merge_outputs([one for one in outcomes if isinstance(one, GeneratorOutput)])


def evaluate_folder(
    config: EvalConfig,
    generator: Generator,
    description: GeneratorDescription,
    model_folder: Path,
    folder: RunFolder,
    progress: Progress,
) -> None:
    """What trainer-eval does: play the tasks with a model folder's weights, save the rollouts, say how it went."""
    version = version_of(model_folder)
    output = evaluate(generator, description, config.eval, version)
    folder.save_eval(version, output)
    metrics = eval_metrics(output.metrics)
    folder.append_metrics({"step": version, **metrics})
    progress.say(f"{len(output.rollouts)} rollouts of held-out tasks: {eval_text(metrics)}")


def split_sizes(description: GeneratorDescription, split: str) -> dict[str, int]:
    """The number of tasks of each env in a split."""
    return {env: sizes[split] for env, sizes in description.num_tasks.items()}


def sampling_params(section: SamplingSection) -> SamplingParams:
    """The contract's form of a sampling section.

    Raises:
        SetupError: for a value out of range.
    """
    try:
        return SamplingParams(
            temperature=section.temperature,
            top_p=section.top_p,
            top_k=section.top_k,
            min_p=section.min_p,
            max_turn_tokens=section.max_turn_tokens,
            max_rollout_tokens=section.max_rollout_tokens,
            stop=tuple(section.stop),
            append_eos_after_stop=section.append_eos_after_stop,
        )
    except ValueError as error:
        raise SetupError(f"sampling: {error}") from error


def eval_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics of an evaluation, by the names they have in a run's rows.

    >>> eval_metrics({"reward/success_rate": 0.5, "tokens/sampled_total": 9.0})
    {'eval/success_rate': 0.5, 'eval/tokens/sampled_total': 9.0}
    """
    return {f"eval/{name.removeprefix('reward/')}": value for name, value in metrics.items()}


def eval_text(metrics: Mapping[str, float]) -> str:
    """What is shown of an evaluation."""
    shown = (("success", "eval/success_rate", ".1%"), ("reward", "eval/mean", ".3f"))
    return "  ".join(f"{label} {metrics[key]:{form}}" for label, key, form in shown if key in metrics)
