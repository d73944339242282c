"""What a step of gsm8k and of search costs, beside skyrl-gym 0.4.0 from the package index on the same actions.

Nothing is waited for: search finds its documents in a stub, which skyrl-gym reaches through a session of its HTTP
client that never leaves the process. Both sides run in processes of their own and take turns. The quietest stretch
of 20 episodes counts, as with ``timeit``: more than that is other work of the machine. skyrl-gym is put into a
throw-away environment with uv.

    uv run benchmarks/env_step.py [--rounds 5] [--stretches 40] [--without-peer]

Exits with 1 if a step of envgym costs more than 50 µs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PEER = "skyrl-gym==0.4.0"
CEILING_US = 50.0
STRETCH = 20
TURNS = 5
PASSAGES = [
    f"Passage {number}. " + "The guild Arvel was founded by Mirel in a year of floods. " * 8 for number in range(3)
]

REASONING = "There are 5 boxes with 12 eggs each, so we multiply: 5 * 12 = 50, and that is all of them.\n" * 4
GSM8K_ACTIONS = [f"{REASONING}#### {number}" for number in (50, 51, 52, 53, 60)]
THINKING = "I do not know who founded it, so I look it up in the collection of passages first. " * 4
SEARCH_ACTIONS = [f"{THINKING}<search>founder of Arvel {n}</search>" for n in range(TURNS - 1)]
SEARCH_ACTIONS.append(f"{THINKING}<answer>Mirel</answer>")

Episode = Callable[[], float]
"""Plays one episode and gives the seconds that its steps took."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stretches", type=int, default=40)
    parser.add_argument("--without-peer", action="store_true")
    parser.add_argument("--side", choices=["envgym", "peer"], help="used by the script itself")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options.stretches)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        pythons = {"envgym": Path(sys.executable)}
        if not options.without_peer:
            pythons["peer"] = install_peer(Path(folder))
        return report(race(pythons, options.rounds, options.stretches))


def measure(side: str, stretches: int) -> dict[str, float]:
    """Microseconds a step in the quietest stretch, by env."""
    envs = {"envgym": (envgym_gsm8k, envgym_search), "peer": (peer_gsm8k, peer_search)}[side]
    return {
        name: min(sum(play() for _ in range(STRETCH)) for _ in range(stretches)) / (STRETCH * TURNS) * 1e6
        for name, play in zip(("gsm8k", "search"), (make() for make in envs), strict=True)
    }


def race(pythons: dict[str, Path], rounds: int, stretches: int) -> dict[str, list[dict[str, float]]]:
    times: dict[str, list[dict[str, float]]] = {side: [] for side in pythons}
    for _ in range(rounds):
        for side, python in pythons.items():
            command = [python, __file__, "--side", side, "--stretches", str(stretches)]
            times[side].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    return times


def report(times: dict[str, list[dict[str, float]]]) -> int:
    worst = 0.0
    for name in ("gsm8k", "search"):
        best = {side: min(row[name] for row in rows) for side, rows in times.items()}
        beside = f", {PEER} {best['peer']:.0f} µs" if "peer" in best else ""
        print(f"{name}: envgym {best['envgym']:.0f} µs a step{beside}")
        worst = max(worst, best["envgym"])
    return int(worst > CEILING_US)


def timed(step: Callable[[str], object], actions: Sequence[str]) -> float:
    start = time.perf_counter()
    for action in actions:
        step(action)
    return time.perf_counter() - start


def envgym_gsm8k() -> Episode:
    from envgym import Task, make_env

    env = make_env("gsm8k", max_turns=TURNS)
    task = Task(id="1", data={"question": "5 * 12?"}, answer={"number": "60", "solution": ""})
    return envgym_episode(env, task, GSM8K_ACTIONS)


def envgym_search() -> Episode:
    from envgym import Task, make_env
    from envgym.retrieval.choice import RETRIEVERS
    from envgym.retrieval.corpus import Document

    documents = tuple(Document(id=str(n), title="", text=text) for n, text in enumerate(PASSAGES))

    class Stub:
        def search(self, query: str, k: int) -> tuple[Document, ...]:
            return documents[:k]

    RETRIEVERS["stub"] = lambda documents, options: Stub()
    env = make_env("search", retriever="stub", max_turns=TURNS, topk=3)
    task = Task(id="1", data={"question": "Who founded Arvel?"}, answer={"answers": ("Mirel",)})
    return envgym_episode(env, task, SEARCH_ACTIONS)


def envgym_episode(env: Any, task: Any, actions: Sequence[str]) -> Episode:
    def play() -> float:
        env.reset(seed=0, options={"task": task})
        return timed(env.step, actions)

    return play


def peer_gsm8k() -> Episode:
    from skyrl_gym.envs.gsm8k.multi_turn_env import GSM8kMultiTurnEnv

    extras = {"reward_spec": {"ground_truth": "60"}, "max_turns": TURNS, "extra_info": {}}
    return lambda: timed(GSM8kMultiTurnEnv(extras=extras).step, GSM8K_ACTIONS)


def peer_search() -> Episode:
    from skyrl_gym.envs.search.env import SearchEnv, SearchEnvConfig

    extras = {"reward_spec": {"ground_truth": {"target": ["Mirel"]}}, "max_turns": TURNS}
    answer = {"result": [[{"document": {"contents": text}, "score": 1.0} for text in PASSAGES]]}

    class Response:
        status_code = 200

        def raise_for_status(self) -> None: ...

        def json(self) -> object:
            return answer

    class Session:
        def post(self, *arguments: object, **options: object) -> Response:
            return Response()

    def play() -> float:
        env = SearchEnv(SearchEnvConfig(), extras)
        env.tool_group.session = Session()
        return timed(env.step, SEARCH_ACTIONS)

    return play


def install_peer(folder: Path) -> Path:
    environment = folder / "peer"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, PEER], check=True)
    return python


if __name__ == "__main__":
    sys.exit(main())
