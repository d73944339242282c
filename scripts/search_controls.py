"""Measure what ``docs/search-controls.md`` reports: three seeds of the first command, and what is not learning.

    uv run python scripts/search_controls.py runs/controls

Each run is an ordinary command; the first line of its ``config.yaml`` shows it. The world is one that nothing was
tuned on. A folder that is there already is taken as it is, so that an interrupted measurement can go on.
"""

import argparse
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from envgym import TextEnv, make_env

SEEDS = (1, 2, 3)
WORLD_SEED = 11
TASKS = 2_000
"""Held-out tasks of each evaluation."""

Row = dict[str, Any]


def train(folder: Path, *arguments: str) -> list[Row]:
    """Train in the world of the table, unless the folder is there, and return the rows of the metrics."""
    if not folder.exists():
        command = ["trainer-train", "+env=search", f"env.world_seed={WORLD_SEED}", f"run_dir={folder}"]
        subprocess.run([*command, f"eval.tasks={TASKS}", "eval.every=0", *arguments], check=True)
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def ends(rows: Sequence[Row]) -> tuple[float, float]:
    """Success on held-out tasks before the first step and after the last."""
    evaluations = [row["eval/success_rate"] for row in rows if "eval/success_rate" in row]
    return evaluations[0], evaluations[-1]


def play_all(env: TextEnv, act: Callable[[TextEnv], list[str]]) -> float:
    """The share of held-out tasks that scripted actions solve."""
    solved: list[float] = []
    for number, task in enumerate(env.tasks("eval")[:TASKS]):
        env.reset(seed=number, options={"task": task})
        info: dict[str, Any] = {}
        for action in act(env):
            *_, info = env.step(action)
        solved.append(float(info["success"]))
    return mean(solved)


def expert(env: TextEnv) -> list[str]:
    """What the scripted expert does."""
    return list(env.demonstrate(np.random.default_rng(0)))


def guesser(env: TextEnv) -> Callable[[TextEnv], list[str]]:
    """Answers at once, with what is most often right for a question of this kind among the training tasks."""
    answers: dict[str, Counter[str]] = {}
    for task in env.tasks("train"):
        answers.setdefault(task.data["kind"], Counter())[task.answer["answers"][0]] += 1
    best = {kind: counter.most_common(1)[0][0] for kind, counter in answers.items()}
    return lambda playing: [f"<answer>{best[playing.task.data['kind']]}</answer>"]


PAGE = """\
# What the first command learns, and what it does not

Made by `scripts/search_controls.py`. Success on {tasks} held-out tasks, sampled at temperature 1, in a world
(`env.world_seed={world}`) that no setting was chosen on. Training and evaluation tasks share no entity.

| run | before | after | change |
|---|---|---|---|
{runs}
| answering without searching | | {guess:.3f} | |
| the scripted expert | | {expert:.3f} | |

*Answering without searching* gives, for each kind of question, the answer that is most often right among the
training tasks. *Permuted* deals the rewards of a step out to its rollouts at random: all else is the same, and
nothing should be learned from it. Success falls there, since updates in random directions wear the policy down.

The warm start is the same for every seed. Two times in three its expert answers a question that needs two
searches after the first one, wrongly; what reinforcement learning adds is mostly the second search. By kind of
question (mean of the seeds; a kind with a hyphen needs two searches):

| kind | before | after |
|---|---|---|
{kinds}

Over all steps of the unpermuted runs, the largest difference between a sampled token's log-probability and the
trainer's was {parity:.1e}, and at least {trained:.3f} of the sampled tokens were trained.
"""


def report(plain: dict[int, list[Row]], permuted: dict[int, list[Row]], guess: float, demonstrated: float) -> str:
    """The page, in Markdown."""
    steps = [row for rows in plain.values() for row in rows if row["step"]]
    return PAGE.format(
        tasks=TASKS,
        world=WORLD_SEED,
        runs="\n".join((*run_lines("GRPO", plain), *run_lines("GRPO, rewards permuted in each batch", permuted))),
        guess=guess,
        expert=demonstrated,
        kinds="\n".join(kind_lines(list(plain.values()))),
        parity=max(row["parity/logprob_abs_diff_max"] for row in steps),
        trained=min(row["tokens/trained_fraction"] for row in steps),
    )


def run_lines(label: str, runs: dict[int, list[Row]]) -> Iterator[str]:
    """A line of the table for each seed, and one for their mean."""
    for seed, rows in runs.items():
        before, after = ends(rows)
        yield f"| {label}, seed {seed} | {before:.3f} | {after:.3f} | {after - before:+.3f} |"
    before, after = (mean(ends(rows)[end] for rows in runs.values()) for end in (0, 1))
    yield f"| {label}, mean | {before:.3f} | {after:.3f} | {after - before:+.3f} |"


def kind_lines(runs: Sequence[Sequence[Row]]) -> Iterator[str]:
    """A line for each kind of question, those of one search first."""
    prefix = "eval/env/search/success/"
    kinds = {key.removeprefix(prefix) for rows in runs for key in rows[0] if key.startswith(prefix)}
    for kind in sorted(kinds, key=lambda name: ("-" in name, name)):
        before, after = (mean(rows[end][prefix + kind] for rows in runs) for end in (0, -1))
        yield f"| {kind} | {before:.3f} | {after:.3f} |"


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the runs are kept")
    folder: Path = parser.parse_args().folder
    plain = {seed: train(folder / f"seed-{seed}", f"seed={seed}") for seed in SEEDS}
    permuted = {
        seed: train(folder / f"permuted-{seed}", f"seed={seed}", "algorithm.permute_rewards=true")
        for seed in SEEDS
    }
    env = make_env("search", world_seed=WORLD_SEED)
    page = report(plain, permuted, play_all(env, guesser(env)), play_all(env, expert))
    (Path(__file__).parent.parent / "docs" / "search-controls.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
