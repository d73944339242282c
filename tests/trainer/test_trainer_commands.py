"""The commands on an env and a model of a test's size: most called in this process, some as a user runs them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from envgym import registration
from envgym_generator import storage
from envgym_trainer.cli import eval_main, run_command, sft_main, train_main

pytestmark = pytest.mark.integration

SMALL = [
    "steps=2", "tasks_per_step=3", "group_size=2", "sampling.max_turn_tokens=6", "eval.tasks=4",
    "algorithm.lr=1e-2",
]  # fmt: skip
MAINS = {"train": train_main, "eval": eval_main, "sft": sft_main}


@pytest.fixture
def run(tmp_path, letters_path, monkeypatch, capsys):
    """Call a command in an empty folder; gives its exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(letters_path))
    monkeypatch.setenv("ENVGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    registration._entry_points.cache_clear()

    def call(name, *arguments):
        capsys.readouterr()
        code = run_command(name, MAINS[name], [str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    yield call
    registration._entry_points.cache_clear()
    torch.use_deterministic_algorithms(False)


def start(tmp_path, letters_path, *arguments):
    """Start trainer-train as a user does."""
    return subprocess.Popen(
        [Path(sys.executable).with_name("trainer-train"), *map(str, arguments)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(letters_path), "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def rows_of(folder):
    return [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]


def without_times(row):
    return {key: value for key, value in row.items() if not key.startswith(("time/", "memory/", "throughput/"))}


def test_a_run_leaves_its_folder_and_nothing_else(tmp_path, letters_path, model_folder):
    process = start(
        tmp_path,
        letters_path,
        "+env=letters",
        f"model={model_folder}",
        "run_dir=first",
        "checkpoint.every=1",
        *SMALL,
    )
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first"]
    folder = tmp_path / "first"
    assert sorted(str(path.relative_to(folder)) for path in folder.glob("*/*")) == [
        "checkpoints/step_1", "checkpoints/step_2", "eval/step_0.parquet", "eval/step_2.parquet",
        "rollouts/step_1.parquet", "rollouts/step_2.parquet",
    ]  # fmt: skip
    assert "step 2/2  reward 0." in output and "before training: success" in output

    first, *rows = rows_of(folder)
    assert first["step"] == 0 and all(key == "step" or key.startswith(("eval/", "time/")) for key in first)
    assert [row["step"] for row in rows] == [1, 2]
    for key in (
        "reward/mean", "reward/success_rate", "loss/policy", "grad/norm", "parity/logprob_abs_diff_mean",
        "tokens/padding_fraction", "rollout/failed", "time/step_s", "time/generate_s", "time/train_s",
        "time/sync_s",
    ):  # fmt: skip
        assert key in rows[0], key
    assert all(
        row["parity/logprob_abs_diff_max"] <= 1e-4 and row["tokens/trained_fraction"] == 1.0 for row in rows
    )
    assert "eval/success_rate" in rows[1] and "eval/success_rate" not in rows[0]

    rollouts = storage.load(folder / "rollouts" / "step_2.parquet")
    assert (len(rollouts.rollouts), rollouts.policy_version) == (6, 1)
    AutoModelForCausalLM.from_pretrained(folder / "checkpoints" / "step_2")
    assert AutoTokenizer.from_pretrained(folder / "checkpoints" / "step_2").chat_template


def test_the_same_command_gives_the_same_metrics_and_another_seed_does_not(run, model_folder):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert (
            run("train", "+env=letters", f"model={model_folder}", f"run_dir={name}", f"seed={seed}", *SMALL)[0]
            == 0
        )
    a, b, c = ([without_times(row) for row in rows_of(name)] for name in "abc")
    assert a == b
    assert a[0] == c[0] and a[1] != c[1]  # the first evaluation does not depend on the run's seed


def test_saved_rollouts_train_without_an_engine_to_the_same_loss(run, model_folder):
    run("train", "+env=letters", f"model={model_folder}", "run_dir=played", *SMALL)
    code, _, errors = run(
        "train", "generator=replay", "generator.path=played/rollouts/step_1.parquet", f"model={model_folder}",
        "run_dir=replayed", "algorithm.lr=1e-2",
    )  # fmt: skip
    assert code == 0, errors
    (replayed,) = rows_of("replayed")
    assert without_times(replayed) == without_times(rows_of("played")[1])


def test_rollouts_of_other_weights_are_trained_on_without_the_parity_gate(run, model_folder):
    run("train", "+env=letters", f"model={model_folder}", "run_dir=played", *SMALL)
    code, output, _ = run(
        "train", "generator=replay", "generator.path=played/rollouts/step_2.parquet", f"model={model_folder}",
        "run_dir=replayed",
    )  # fmt: skip
    assert code == 0
    assert "parity is not checked: the rollouts were sampled by other weights" in output
    assert not any(key.startswith("parity/") for key in rows_of("replayed")[0])


@pytest.mark.parametrize("stage", [0, 2])
def test_the_stage_of_zero_does_not_change_the_numbers(run, model_folder, stage):
    common = ["+env=letters", f"model={model_folder}", *SMALL, "eval.tasks=0"]
    run("train", *common, "run_dir=three")
    run("train", *common, "run_dir=other", f"deepspeed.zero_optimization.stage={stage}")
    norms = [[row["grad/norm"] for row in rows_of(name)] for name in ("three", "other")]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)


def test_several_updates_of_a_step_are_made_and_the_gate_still_holds(run, model_folder):
    code, _, errors = run(
        "train", "+env=letters", f"model={model_folder}", "run_dir=x", *SMALL, "algorithm.updates_per_step=3"
    )
    assert code == 0, errors
    assert all(row["parity/logprob_abs_diff_max"] <= 1e-4 for row in rows_of("x")[1:])


def test_a_checkpoint_is_evaluated_as_its_run_evaluated_it(run, model_folder):
    run("train", "+env=letters", f"model={model_folder}", "run_dir=trained", *SMALL)
    code, output, errors = run(
        "eval", "+env=letters", "model=trained/checkpoints/step_2", "run_dir=evaluated", "eval.tasks=4",
        "eval.sampling.max_turn_tokens=6",
    )  # fmt: skip
    assert code == 0, errors
    assert "4 rollouts of held-out tasks: success" in output
    (row,) = rows_of("evaluated")
    expected = {key: value for key, value in rows_of("trained")[-1].items() if key.startswith("eval/")}
    assert without_times(row) == {"step": 2} | expected
    assert Path("evaluated/eval/step_2.parquet").is_file()


def test_an_expert_is_evaluated_and_imitated(run, model_folder):
    assert run("eval", "+env=letters", f"model={model_folder}", "engine=expert", "run_dir=expert")[0] == 0
    assert rows_of("expert")[0]["eval/success_rate"] == 1.0
    code, _, errors = run(
        "sft", "data=expert/eval/step_0.parquet", f"model={model_folder}", "run_dir=imitation", "steps=40",
        "batch_size=8", "lr=2e-2", "schedule=constant",
    )  # fmt: skip
    assert code == 0, errors
    losses = [row["loss/sft"] for row in rows_of("imitation")]
    assert len(losses) == 40 and losses[-1] < 0.2 * losses[0]
    run("eval", "+env=letters", "model=imitation/checkpoints/step_40", "run_dir=pupil")
    assert rows_of("pupil")[0]["eval/success_rate"] > 0.5

    code, _, errors = run(
        "sft",
        "data=expert/eval/step_0.parquet",
        f"model={model_folder}",
        "run_dir=x",
        "steps=12",
        "stop_below=1e-9",
    )
    assert code == 1
    assert errors.startswith("trainer-sft: imitation reached a loss of ") and errors.count("\n") == 1


def test_parity_over_the_threshold_ends_the_first_step_with_code_1(run, model_folder):
    code, _, errors = run(
        "train", "+env=letters", f"model={model_folder}", "run_dir=x", *SMALL, "parity.max_abs_diff=0"
    )
    assert code == 1
    assert "step 1: trainer and generator disagree" in errors and "neighbours" in errors
    assert errors.count("\n") == 1
    assert Path("x/rollouts/step_1.parquet").is_file()


BROKEN = """
def from_the_third_step(episodes, section, steps=[]):
    steps.append(1)
    size = 1e300 if len(steps) > 2 else 1.0
    return [[size] * len(episode.token_rewards) for episode in episodes]
"""


def test_weights_that_a_broken_step_has_changed_are_not_saved(run, tmp_path, monkeypatch, model_folder):
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    code, _, errors = run(
        "train", "+env=letters", f"model={model_folder}", "run_dir=x", *SMALL, "steps=9", "checkpoint.every=1",
        "algorithm.advantage=broken:from_the_third_step",
    )  # fmt: skip
    assert code == 1 and errors.count("\n") == 1, errors
    assert sorted(path.name for path in Path("x/checkpoints").iterdir()) == ["step_1", "step_2"]
    assert [row["step"] for row in rows_of("x")] == [0, 1, 2]


def test_where_an_env_runs_can_be_chosen(run, model_folder):
    code, _, errors = run(
        "train", "+env=letters", f"model={model_folder}", "run_dir=x", *SMALL, "steps=1", "eval.tasks=0",
        "generator.isolation.letters=thread", "generator.env_workers=1",
    )  # fmt: skip
    assert code == 0, errors
    assert run("train", "+env=letters", f"model={model_folder}", "generator.isolation.letters=moon")[0] == 2


def test_ctrl_c_keeps_what_was_done_and_saves_the_weights(tmp_path, letters_path, model_folder):
    process = start(
        tmp_path, letters_path, "+env=letters", f"model={model_folder}", "run_dir=long", *SMALL, "steps=100000"
    )
    metrics = tmp_path / "long" / "metrics.jsonl"
    deadline = time.monotonic() + 200
    while not (metrics.is_file() and metrics.read_text().count("\n") >= 3) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert errors == "trainer-train: stopped by Ctrl-C; everything up to the last finished step is kept\n"
    assert process.returncode == 130
    checkpoints = sorted((tmp_path / "long" / "checkpoints").iterdir(), key=lambda path: path.stat().st_mtime)
    assert checkpoints[-1].name == f"step_{rows_of(metrics.parent)[-1]['step']}"
    AutoModelForCausalLM.from_pretrained(checkpoints[-1])


def test_help_lists_envs_groups_and_keys(run):
    for name in MAINS:
        code, output, _ = run(name, "--help")
        assert code == 0 and output.startswith(f"usage: trainer-{name} ")
    for part in ("letters", "search", "reinforce_pp", "sampling.temperature=1.0", "group_size=8"):
        assert part in run("train", "--help")[1]


BAD_INPUT = {
    "unknown key": (["+env=letters", "model=MODEL", "stepz=3"], "unknown key stepz; did you mean steps?"),
    "unknown env": (["+env=lettres"], "unknown env 'lettres'; the registered envs are:"),
    "missing env": (["model=MODEL"], "no env is chosen; add +env=NAME. The registered envs are:"),
    "unknown argument of the env": (["+env=letters", "model=MODEL", "env.sise=3"], "takes no argument 'sise'"),
    "wrong argument of the env": (["+env=letters", "model=MODEL", "env.max_turns=0"], "max_turns is 0"),
    "empty task set": (["+env=letters", "model=MODEL", "env.size=0"], "no tasks"),
    "no tokenizer": (["+env=letters", "model=NO_TOKENIZER"], "has no tokenizer"),
    "no chat template": (["+env=letters", "model=NO_TEMPLATE"], "has no chat template"),
    "group of one": (["+env=letters", "model=MODEL", "group_size=1"], "group_size=1 leaves grpo without"),
    "existing run folder": (["+env=letters", "model=MODEL", "run_dir=there"], "already exists and is not"),
    "no saved rollouts": (["generator=replay", "generator.path=gone", "model=MODEL"], "gone does not exist"),
    "not saved rollouts": (["generator=replay", "generator.path=there/kept", "model=MODEL"], "there/kept"),
    "engine argument": (["+env=letters", "model=MODEL", "engine.args.dtipe=1"], "engine.args.dtipe is unknown"),
    "stage of ZeRO": (["+env=letters", "model=MODEL", "deepspeed.zero_optimization.stage=7"], "DeepSpeed refuses"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_one_line_and_code_2(run, tmp_path, model_folder, name):
    arguments, message = BAD_INPUT[name]
    folders = {"MODEL": model_folder}
    for key, missing in (("NO_TOKENIZER", "tokenizer.json"), ("NO_TEMPLATE", "chat_template.jinja")):
        folders[key] = tmp_path / key
        folders[key].mkdir()
        for path in model_folder.iterdir():
            if path.name != missing:
                (folders[key] / path.name).write_bytes(path.read_bytes())
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "kept").write_text("kept")
    for key, folder in folders.items():
        arguments = [argument.replace(f"model={key}", f"model={folder}") for argument in arguments]
    code, _, errors = run("train", *arguments)
    assert code == 2
    assert message in errors
    assert errors.startswith("trainer-train: ") and errors.count("\n") == 1
    assert (tmp_path / "there" / "kept").read_text() == "kept"


def test_what_needs_no_model_is_said_without_importing_torch(tmp_path, letters_path):
    code = (
        "import sys; from envgym_trainer.cli import run_command, train_main; "
        "code = run_command('train', train_main, ['+env=letters', 'stepz=3']); "
        "sys.exit(code if 'torch' not in sys.modules else 99)"
    )
    environment = os.environ | {"PYTHONPATH": str(letters_path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=False).returncode == 2
