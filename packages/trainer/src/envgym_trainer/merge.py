# pyright: strict
"""One GeneratorOutput from those of several ranks, and the metrics of the whole from those of the parts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from envgym_generator.types import GeneratorOutput
from envgym_trainer.batch import is_trained


def merge_outputs(outputs: Sequence[GeneratorOutput]) -> GeneratorOutput:
    """Put the rollouts of all ranks together, in the order of ranks.

    Args:
        outputs: at least one. Where all hold the same rollouts, as when saved ones are replayed, they are one.
    """
    first, *others = outputs
    requests = [rollout.request for rollout in first.rollouts]
    if all([rollout.request for rollout in other.rollouts] == requests for other in others):
        return first
    return replace(
        first,
        rollouts=tuple(rollout for output in outputs for rollout in output.rollouts),
        metrics=merge_metrics([(output.metrics, metric_weights(output)) for output in outputs]),
    )


def merge_metrics(parts: Sequence[tuple[Mapping[str, float], Counter[str]]]) -> dict[str, float]:
    """Counts add up, maxima are compared, and means count by what they are over.

    Args:
        parts: metrics of each part, and its ``metric_weights``.
    """
    merged: dict[str, float] = {}
    for name in dict.fromkeys(name for metrics, _ in parts for name in metrics):
        values = [(metrics[name], weights[denominator(name)]) for metrics, weights in parts if name in metrics]
        if is_count(name):
            merged[name] = sum(value for value, _ in values)
        elif name.endswith("_max"):
            merged[name] = max(value for value, _ in values)
        else:
            total = sum(weight for _, weight in values)
            merged[name] = sum(value * weight for value, weight in values) / total if total else values[0][0]
    return merged


def is_count(name: str) -> bool:
    """Whether a metric counts something, so that parts add up."""
    return name.startswith(("rollout/", "tokens/excluded/")) or name == "tokens/sampled_total"


def denominator(name: str) -> str:
    """What a mean is over, as a key of ``metric_weights``.

    An env's own metric is taken to be over all its rollouts.
    """
    if name.startswith("reward/pass_at_"):
        return f"groups of {name.removeprefix('reward/pass_at_')}"
    if name.startswith("env/"):
        return "env " + name.split("/")[1]
    if name.startswith("tokens/"):
        return "segments" if name.endswith("_mean") else "trained"
    return "turns" if name.startswith("turns/") and name != "turns/mean" else "rollouts"


def metric_weights(output: GeneratorOutput) -> Counter[str]:
    """How many of each thing that means are over an output has."""
    counted = [rollout for rollout in output.rollouts if is_trained(rollout)]
    weights: Counter[str] = Counter()
    for rollout in counted:
        weights["rollouts"] += 1
        weights[f"env {rollout.request.env}"] += 1
        weights["turns"] += len(rollout.turns)
        weights["segments"] += len(rollout.segments)
        weights["trained"] += sum(sum(segment.loss_mask) for segment in rollout.segments)
    for size in Counter(rollout.request.group for rollout in counted).values():
        for k in range(1, size + 1):
            weights[f"groups of {k}"] += 1
    return weights
