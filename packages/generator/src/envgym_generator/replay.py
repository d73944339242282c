"""A generator without envs and without an engine: it serves a saved ``GeneratorOutput`` at every step."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envgym.errors import SetupError
from envgym_generator.storage import load
from envgym_generator.types import GeneratorDescription, GeneratorInput, GeneratorOutput


def build_replay_generator(config: Mapping[str, Any]) -> "ReplayGenerator":
    """Build the generator of ``generator=replay``.

    Args:
        config: as for ``build_rollout_generator``. ``path`` is the file; of ``envs`` only the names are read, and
            the rest (engine, model, seed) has no effect on rollouts that were played already.

    Raises:
        SetupError: if the file cannot be read, or holds no rollouts of an env that is asked for.
    """
    if not config.get("path"):
        raise SetupError("generator=replay needs generator.path=FILE, a saved GeneratorOutput")
    path = Path(config["path"])
    output = load(path)
    saved = {rollout.request.env for rollout in output.rollouts}
    for name in config.get("envs", {}):
        if name not in saved:
            raise SetupError(
                f"{path} has no rollouts of env {name!r}; it has: {', '.join(sorted(saved)) or 'none'}"
            )
    return ReplayGenerator(output)


class ReplayGenerator:
    """Implements ``envgym_generator.types.Generator`` with rollouts that are there already."""

    def __init__(self, output: GeneratorOutput) -> None:
        """Serve ``output``."""
        self._output = output

    def describe(self) -> GeneratorDescription:
        """Say what the file holds. There is nothing to evaluate on, so each env has 0 eval tasks."""
        tasks: defaultdict[str, set[tuple[str, str, int]]] = defaultdict(set)
        for rollout in self._output.rollouts:
            tasks[rollout.request.env].add(rollout.request.group)
        lengths = [
            len(segment.prompt_ids) + len(segment.completion_ids)
            for rollout in self._output.rollouts
            for segment in rollout.segments
        ]
        return GeneratorDescription(
            num_tasks={env: {"train": len(groups), "eval": 0} for env, groups in sorted(tasks.items())},
            stop=self._output.sampling.stop,
            tokenizer_fingerprint="",
            eos_ids=(),
            max_context_tokens=max(lengths, default=0),
        )

    def generate(self, generator_input: GeneratorInput) -> GeneratorOutput:
        """Return the saved output, whatever is asked for.

        Raises:
            SetupError: if it is asked to evaluate weights, which takes an engine.
        """
        if generator_input.purpose == "eval":
            raise SetupError("generator=replay cannot play held-out tasks; add eval.tasks=0")
        return self._output

    def update_weights(self, version: int, named_tensors: Iterable[tuple[str, Any]]) -> None:
        """Weights have no effect here, and are left to the caller."""

    def close(self) -> None:
        """Nothing is held."""
