"""``envgym play``: a person plays an episode in the terminal."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import gymnasium
import numpy as np
import typer
from rich.console import Console

from envgym.commands.argument import ArgOptions, EnvName, read_arguments, read_split
from envgym.commands.terminal import make_console, printable
from envgym.env import Observation, TextEnv
from envgym.errors import SetupError
from envgym.messages import Message, Task
from envgym.registration import make_env
from envgym.wrappers import RecordTranscript

QUIT = ":quit"


def play(
    env: EnvName,
    arg: ArgOptions = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the episode; it draws the task too.")] = None,
    split: Annotated[str, typer.Option(help="train or eval.")] = "train",
    task: Annotated[int | None, typer.Option(help="Index of the task to play.")] = None,
    record: Annotated[Path | None, typer.Option(help="Append the episode to this file of JSON lines.")] = None,
) -> None:
    """Play one episode yourself."""
    inner = make_env(env, **read_arguments(arg))
    chosen = choose_task(inner, split, task, seed)
    played = inner if record is None else RecordTranscript(inner, record)
    console = make_console()
    console.print(_how_to_act(inner), style="dim")
    try:
        play_episode(console, played, inner, chosen, seed)
    finally:
        played.close()


def choose_task(env: TextEnv, split: str, index: int | None, seed: int | None) -> Task:
    """The task of this index, or one that the seed draws.

    Raises:
        SetupError: for a split or an index that there is none of.
    """
    tasks = env.tasks(read_split(split))
    if index is None:
        index = int(np.random.default_rng(seed).integers(len(tasks)))
    if not 0 <= index < len(tasks):
        raise SetupError(f"--task is {index}; the split {split} has the tasks 0 to {len(tasks) - 1}")
    return tasks[index]


def _how_to_act(env: TextEnv) -> str:
    ends = f"a line that holds {' or '.join(env.stop_strings)}, or with an" if env.stop_strings else "an"
    return f"You play the model. An action ends with {ends} empty line; {QUIT} or Ctrl-D ends the episode."


def play_episode(
    console: Console, env: gymnasium.Env[Observation, str], inner: TextEnv, task: Task, seed: int | None
) -> None:
    """Show what the env says, and read actions, until one of both is done."""
    messages, _ = env.reset(seed=seed, options={"task": task})
    show(console, messages)
    total = 0.0
    for turn in range(1, inner.max_turns + 1):
        action = read_action(f"[{turn}/{inner.max_turns}] ", inner.stop_strings)
        if action is None:
            console.print("\nepisode given up", style="bold")
            return
        messages, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        show(console, messages)
        console.print(outcome(float(reward), info), style="bold")
        if terminated or truncated:
            console.print(f"episode over: return {total:g}, success {info.get('success')}", style="bold")
            return


def show(console: Console, messages: Iterable[Message]) -> None:
    """Print messages under their roles."""
    for message in messages:
        console.rule(message.role, align="left", style="dim")
        console.print(printable(message.text), soft_wrap=True)


def read_action(prompt: str, stops: tuple[str, ...]) -> str | None:
    """Read lines until one holds a stop string or is empty. None where there is nothing more to read."""
    lines: list[str] = []
    while True:
        try:
            line = input(prompt if not lines else "... ")
        except EOFError:
            return None
        if line.strip() == QUIT:
            return None
        if line or not lines:
            lines.append(line)
        if not line or any(stop in line for stop in stops):
            return "\n".join(lines)


def outcome(reward: float, info: dict[str, Any]) -> str:
    """One line on what an action earned.

    >>> outcome(1.0, {"reward_terms": {"answer": 1.0, "format": 0.0}})
    'reward 1 (answer 1, format 0)'
    """
    terms = ", ".join(f"{name} {value:g}" for name, value in info.get("reward_terms", {}).items())
    return f"reward {reward:g}" + (f" ({terms})" if terms else "")
