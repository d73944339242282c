"""Train one saved GeneratorOutput one step on 1 and 2 ranks, in every stage and micro-batch size, and compare.

    uv run python scripts/rank_grid.py MODEL_FOLDER ROLLOUTS.parquet [--pairwise] [--disagree]

Prints a line for each case and ends with an error where a loss or a gradient norm is off by more than 1e-5.
``--disagree`` leaves out the agreement on the number of forward passes, to see the watchdog.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

STAGES = (0, 2, 3)
MICRO_BATCH_TOKENS = (1, 64, 1_000_000)
"""One row, a few, and all of them at once."""
PAIRWISE = ((0, 1), (0, 1_000_000), (2, 64), (3, 1), (3, 64))
TOLERANCE = 1e-5
WATCHDOG_S = 20.0


def main() -> None:
    arguments = sys.argv[1:]
    if "RANK" in os.environ:
        train_cases(arguments)
        return
    alone, together = (run(size, arguments) for size in (1, 2))
    reference = alone[0]
    for size, found in ((1, alone), (2, together)):
        for case in found:
            print(json.dumps({"ranks": size, **case}))
            for key in ("loss", "norm"):
                if abs(case[key] - reference[key]) > TOLERANCE * abs(reference[key]):
                    sys.exit(f"{size} ranks, {case}: {key} is not {reference[key]}")


def run(size: int, arguments: list[str]) -> list[dict[str, float]]:
    """The cases on ``size`` ranks, in one launch."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(size)]
    done = subprocess.run(
        [*launcher, __file__, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        sys.exit(done.returncode)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def train_cases(arguments: list[str]) -> None:
    """As one rank: every case, with a new policy each."""
    from envgym_generator import storage
    from envgym_trainer.config import AlgorithmSection
    from envgym_trainer.deepspeed_policy import DeepSpeedPolicy, OptimizerSection, join_process_group
    from envgym_trainer.model import load_model
    from envgym_trainer.ranks import Ranks
    from envgym_trainer.update import accumulate_gradient, training_rows

    model, output = Path(arguments[0]), storage.load(Path(arguments[1]))
    join_process_group()
    ranks = Ranks(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), WATCHDOG_S)
    if "--disagree" in arguments:
        ranks.most = lambda count, place: count
    cases = PAIRWISE if "--pairwise" in arguments else tuple(itertools.product(STAGES, MICRO_BATCH_TOKENS))
    for stage, tokens in cases:
        policy = DeepSpeedPolicy(
            load_model(model), OptimizerSection(deepspeed={"zero_optimization": {"stage": stage}})
        )
        section = AlgorithmSection(advantage="grpo", lr=0.0, micro_batch_tokens=tokens)
        rows = training_rows(output, section, seed=0, step=1)
        gradient = accumulate_gradient(policy, rows, section, output.sampling.temperature, None, ranks)
        with ranks.at("the update of the weights"):
            norm = policy.step(0.0)
        if ranks.is_first:
            print(json.dumps({"stage": stage, "tokens": tokens, "loss": gradient.loss, "norm": norm}), flush=True)


if __name__ == "__main__":
    main()
