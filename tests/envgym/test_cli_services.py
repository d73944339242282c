"""``envgym serve-retriever`` and ``envgym preflight``, run as commands."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from envgym.cli import run


@pytest.mark.integration
def test_served_retriever_says_where_it_listens_and_answers() -> None:
    pytest.importorskip("fastapi")
    command = [sys.executable, "-m", "envgym.cli", "serve-retriever", "--port", "0", "--topk", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            request = urllib.request.Request(
                url, json.dumps({"queries": ["a town on a river"]}).encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=30) as response:
                found = json.load(response)["result"][0]
        finally:
            process.send_signal(signal.SIGINT)

    assert len(found) == 2


def test_missing_corpus_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fastapi")

    assert run(["serve-retriever", "--corpus", str(tmp_path / "none.jsonl")]) == 2

    assert capsys.readouterr().err.count("\n") == 1


def test_option_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fastapi")

    assert run(["serve-retriever", "--option", "model"]) == 2

    assert capsys.readouterr().err == "envgym: --option 'model' must be KEY=VALUE\n"


def test_serving_without_its_extra_is_one_line_that_names_it() -> None:
    script = (
        "import sys; sys.modules['fastapi'] = None; from envgym.cli import run; sys.exit(run(['serve-retriever']))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 2
    assert "pip install 'envgym[serve]'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.integration
def test_preflight_of_the_embedded_databases_finds_no_gold_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    run(["preflight", "txt2sql"])

    assert "does not run" not in capsys.readouterr().out
