"""``envgym eval``: play an env's tasks with a model behind an endpoint, or with a scripted policy."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from envgym.commands.argument import ArgOptions, EnvName, read_arguments, read_split
from envgym.commands.terminal import make_console, make_table, printable
from envgym.env import TextEnv
from envgym.errors import SetupError
from envgym.evaluation.policy import SCRIPTED, Policy, Sampling, scripted_policy
from envgym.evaluation.result import Job, Result, Summary, summarise
from envgym.evaluation.run import jobs_for, play_all
from envgym.extra import missing_extra
from envgym.registration import make_env


def evaluate(
    env: EnvName,
    arg: ArgOptions = None,
    base_url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible endpoint, for example http://127.0.0.1:8000/v1.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name at the endpoint.")] = None,
    policy: Annotated[str | None, typer.Option(help=f"Instead of a model: {', '.join(SCRIPTED)}.")] = None,
    split: Annotated[str, typer.Option(help="train or eval.")] = "eval",
    tasks: Annotated[int, typer.Option(min=1, help="The first so many tasks of the split.")] = 50,
    samples: Annotated[int, typer.Option(min=1, help="Episodes per task.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seeds the episodes; the endpoint is sent it as well.")] = 0,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of one action.")] = 1024,
    concurrency: Annotated[int, typer.Option(min=1, help="Episodes played at once.")] = 8,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for one answer.")] = 120.0,
    api_key_variable: Annotated[
        str, typer.Option(help="Environment variable that holds the endpoint's key.")
    ] = "OPENAI_API_KEY",
    out: Annotated[Path | None, typer.Option(help="Write a line of JSON per episode to this new file.")] = None,
) -> None:
    """Play tasks, and print success rate and rewards. Exit code 1 where every episode failed."""
    build = partial(make_env, env, **read_arguments(arg))
    chosen = read_split(split)
    sampling = Sampling(temperature=temperature, max_tokens=max_tokens, timeout_s=timeout)
    player = choose_policy(policy, base_url, model, os.environ.get(api_key_variable), sampling)
    jobs = jobs_for(len(build().tasks(chosen)), split=chosen, tasks=tasks, samples=samples, seed=seed)
    results = play_and_write(build, player, jobs, concurrency, out)
    summary = summarise(results)
    print_summary(make_console(), f"{env}, {split}, {len(jobs)} episodes", summary, samples)
    raise typer.Exit(1 if summary.failed == summary.episodes else 0)


def choose_policy(
    scripted: str | None, base_url: str | None, model: str | None, api_key: str | None, sampling: Sampling
) -> Policy:
    """The scripted policy, or the model behind the endpoint.

    Raises:
        SetupError: where neither or both are named, or httpx is missing.
    """
    if scripted is not None:
        if base_url is not None or model is not None:
            raise SetupError("--policy and --base-url exclude each other")
        return scripted_policy(scripted)
    if base_url is None or model is None:
        raise SetupError("give --base-url URL and --model NAME, or a scripted policy with --policy expert")
    try:
        from envgym.evaluation.chat_endpoint import ChatEndpoint
    except ModuleNotFoundError as error:
        raise missing_extra("http", "--base-url", error) from error
    return ChatEndpoint(base_url, model, api_key=api_key, sampling=sampling)


def play_and_write(
    build: Callable[[], TextEnv], policy: Policy, jobs: list[Job], at_once: int, out: Path | None
) -> list[Result]:
    """Play the jobs behind a progress bar, and write each result to the file when it is there."""
    results: list[Result] = []
    with nullcontext() if out is None else _new_file(out) as file:
        for result in with_progress(play_all(build, policy, jobs, at_once=at_once), len(jobs)):
            results.append(result)
            if file is not None:
                file.write(json.dumps(result.as_json()) + "\n")
                file.flush()
    return results


def _new_file(path: Path) -> IO[str]:
    try:
        return path.open("x", encoding="utf-8")
    except OSError as error:
        raise SetupError(f"cannot write a new file: {error}") from error


def with_progress(results: Iterable[Result], total: int) -> Iterator[Result]:
    """Pass results on, and show on standard error how many there are and how they are doing."""
    columns = (
        TextColumn("playing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    console = make_console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=total)
        solved = failed = 0
        for result in results:
            solved += result.error is None and result.solved
            failed += result.error is not None
            progress.update(bar, advance=1, description=f"{solved} solved, {failed} failed")
            yield result


def print_summary(console: Console, title: str, summary: Summary, samples: int) -> None:
    """Print the numbers as a table, and the first error below it."""
    table = make_table(title, "")
    table.add_row("success rate", f"{summary.success_rate:.3f} ± {summary.standard_error:.3f}")
    if samples > 1:
        table.add_row(f"pass@{samples}", f"{summary.pass_at_k:.3f}")
    table.add_row("mean return", f"{summary.mean_return:.3f}")
    for name, value in summary.reward_terms.items():
        table.add_row(f"  of which {name}", f"{value:.3f}")
    table.add_row("mean turns", f"{summary.mean_turns:.2f}")
    table.add_row("failed", str(summary.failed))
    console.print(table)
    if summary.first_error is not None:
        console.print(f"the first failure: {printable(summary.first_error)}")
