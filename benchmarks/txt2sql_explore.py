"""Race the exploration of one database: envgym's txt2sql against skyrl-gym 0.4.0 from the package index.

Both play the same actions on the same SQLite file, each in a process of its own. The two take turns in short
rounds, so that a busy machine slows both. skyrl-gym is installed into a throw-away environment with uv.

Two races: in the first every query is new; in the second the same queries come again, as they do in a group of
rollouts, and envgym recalls what they gave. Each time is the median of a step; starting up is not counted.

    uv run benchmarks/txt2sql_explore.py [--rounds 7] [--steps 300]
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PEER = "skyrl-gym==0.4.0"
RACES = ("new queries", "same queries")
QUERIES = (
    "SELECT name FROM sqlite_master WHERE type = 'table'",
    "SELECT * FROM museum LIMIT 5",
    "SELECT * FROM painting LIMIT 30",
    "SELECT DISTINCT style FROM painting",
    "SELECT count(*) FROM painting WHERE style = 'gothic'",
    "SELECT floor, count(*) FROM gallery GROUP BY floor",
    "SELECT m.name, sum(g.size) FROM museum m JOIN gallery g ON g.museum_id = m.id GROUP BY m.id ORDER BY 2 DESC",
    "SELECT p.name, p.value FROM painting p JOIN gallery g ON p.gallery_id = g.id WHERE g.floor = 'basement'",
    "SELECT name FROM painting WHERE value > (SELECT avg(value) FROM painting)",
    "SELECT nothing FROM nowhere",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--side", choices=["envgym", "peer"], help="used by the script itself")
    parser.add_argument("--folder", type=Path, help="used by the script itself")
    options = parser.parse_args()
    if options.side:
        play(options.side, options.folder, options.steps)
        return
    with tempfile.TemporaryDirectory() as folder:
        race(Path(folder), options.rounds, options.steps)


def race(folder: Path, rounds: int, steps: int) -> None:
    """Let both sides play the rounds in turns and print who was faster."""
    lay_out_database(folder)
    pythons = {"peer": install_peer(folder), "envgym": Path(sys.executable)}
    times: dict[str, dict[str, list[float]]] = {side: {name: [] for name in RACES} for side in pythons}
    for _ in range(rounds):
        for side, python in pythons.items():
            command = [python, __file__, "--side", side, "--folder", folder, "--steps", str(steps)]
            medians = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            for name, microseconds in medians.items():
                times[side][name].append(microseconds)
    for name in RACES:
        peer, own = (statistics.median(times[side][name]) for side in ("peer", "envgym"))
        print(f"{name}: {PEER} {peer:.0f} µs a step, envgym {own:.0f} µs: {peer / own:.1f} times as fast")


def lay_out_database(folder: Path) -> None:
    """Put one embedded database where skyrl-gym looks for Spider's."""
    from envgym.worlds.databases import make_world

    target = folder / "spider" / "database" / "museums_1" / "museums_1.sqlite"
    target.parent.mkdir(parents=True)
    shutil.copyfile(make_world(0).folder / "museums_1.sqlite", target)
    task = {"question": "How many museums?", "query": "SELECT count(*) FROM museum", "db_id": "museums_1"}
    (folder / "spider" / "tasks.jsonl").write_text(json.dumps(task) + "\n")


def install_peer(folder: Path) -> Path:
    environment = folder / "peer"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, PEER], check=True)
    return python


def play(side: str, folder: Path, steps: int) -> None:
    """Run both races on one side and print the median times of a step in µs."""
    same = [f"I look. <sql>{QUERIES[number % len(QUERIES)]}</sql>" for number in range(steps)]
    new = [action.replace("</sql>", f" -- {number}</sql>") for number, action in enumerate(same)]
    warm_up = same[: len(QUERIES)]
    turns = len(warm_up) + len(new) + len(same) + 1
    step = envgym_step(folder, turns) if side == "envgym" else peer_step(folder, turns)
    timed(step, warm_up)
    print(json.dumps({name: timed(step, actions) for name, actions in zip(RACES, (new, same), strict=True)}))


def envgym_step(folder: Path, turns: int) -> Callable[[str], object]:
    from envgym.envs.txt2sql import Txt2SqlEnv

    tasks = str(folder / "spider" / "tasks.jsonl")
    env = Txt2SqlEnv(tasks=tasks, eval_tasks=tasks, max_turns=turns)
    env.reset(seed=0)
    return env.step


def peer_step(folder: Path, turns: int) -> Callable[[str], object]:
    from skyrl_gym.envs.sql.env import SQLEnv, Text2SQLEnvConfig

    extras = {
        "db_id": "museums_1",
        "data": "spider",
        "reward_spec": {"ground_truth": "SELECT count(*) FROM museum"},
        "max_turns": turns,
    }
    return SQLEnv(Text2SQLEnvConfig(db_path=str(folder)), extras).step


def timed(step: Callable[[str], object], actions: list[str]) -> float:
    """The median time of a step in µs, which other programs on the machine disturb least."""
    times: list[float] = []
    for action in actions:
        start = time.perf_counter()
        step(action)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


if __name__ == "__main__":
    main()
