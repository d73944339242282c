import subprocess
import sys
from pathlib import Path

import pytest

from envgym import SetupError
from envgym.envs.search import SearchEnv
from envgym.task_dataset import is_dataset, load_rows

datasets = pytest.importorskip("datasets")
ROWS = [{"question": f"{n} + 1?", "answer": f"#### {n + 1}"} for n in range(20)]


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def test_loads_what_save_to_disk_wrote(tmp_path: Path) -> None:
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "one")
    rows = load_rows(str(tmp_path / "one"))
    assert len(rows) == 20
    assert rows[3] == {"question": "3 + 1?", "answer": "#### 4"}


def test_takes_the_training_split_unless_another_is_named(tmp_path: Path) -> None:
    both = datasets.DatasetDict(train=datasets.Dataset.from_list(ROWS), test=datasets.Dataset.from_list(ROWS[:5]))
    both.save_to_disk(tmp_path / "two")
    assert len(load_rows(str(tmp_path / "two"))) == 20
    assert len(load_rows(f"{tmp_path / 'two'}@test")) == 5


def test_takes_the_only_split_whatever_its_name(tmp_path: Path) -> None:
    datasets.DatasetDict(validation=datasets.Dataset.from_list(ROWS)).save_to_disk(tmp_path / "one")
    assert len(load_rows(str(tmp_path / "one"))) == 20


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
def test_loads_a_single_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    getattr(datasets.Dataset.from_list(ROWS), f"to_{suffix}")(path)
    assert is_dataset(str(path))
    assert load_rows(str(path))[19] == ROWS[19]


def test_loads_an_arrow_file(tmp_path: Path) -> None:
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "one")
    (file,) = (tmp_path / "one").glob("*.arrow")
    assert load_rows(str(file))[7] == ROWS[7]


def test_loads_a_folder_of_parquet_files_by_split(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    datasets.Dataset.from_list(ROWS).to_parquet(folder / "train.parquet")
    datasets.Dataset.from_list(ROWS[:4]).to_parquet(folder / "test.parquet")
    assert len(load_rows(f"{folder}@test")) == 4


def test_rows_are_loaded_once_per_process(tmp_path: Path) -> None:
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "one")
    assert load_rows(str(tmp_path / "one")) is load_rows(str(tmp_path / "one"))


def test_tells_datasets_from_files() -> None:
    assert is_dataset("openai/gsm8k:main@train")
    assert is_dataset("squad")
    for path in ("tasks.jsonl", "./tasks", "/data/tasks", "../a/b", "a/b/c", "~/tasks.jsonl"):
        assert not is_dataset(path)


def test_an_unknown_split_is_refused_with_those_there_are(tmp_path: Path) -> None:
    both = datasets.DatasetDict(a=datasets.Dataset.from_list(ROWS), b=datasets.Dataset.from_list(ROWS))
    both.save_to_disk(tmp_path / "two")
    with pytest.raises(SetupError, match="has no split 'c'; name one of a, b behind an @"):
        load_rows(f"{tmp_path / 'two'}@c")
    with pytest.raises(SetupError, match="has no split 'train'"):
        load_rows(str(tmp_path / "two"))


def test_a_missing_file_and_a_broken_one_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="there is no file"):
        load_rows(str(tmp_path / "none.parquet"))
    (tmp_path / "broken.parquet").write_text("no parquet")
    with pytest.raises(SetupError, match="cannot load") as caught:
        load_rows(str(tmp_path / "broken.parquet"))
    assert "\n" not in str(caught.value)


def test_the_search_env_takes_its_tasks_from_a_dataset(tmp_path: Path) -> None:
    rows = [{"question": f"{n}?", "answers": [str(n)], "supporting_titles": ["a"]} for n in range(30)]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "rows")
    env = SearchEnv(tasks=str(tmp_path / "rows"))
    train, held_out = env.tasks("train"), env.tasks("eval")
    assert {task.data["question"] for task in (*train, *held_out)} == {row["question"] for row in rows}
    assert len(held_out) >= 1
    assert train[0].answer["answers"] == (train[0].data["question"].rstrip("?"),)


def test_a_row_that_announces_other_turns_is_refused(tmp_path: Path) -> None:
    rows = [{"question": "1?", "answers": ["1"], "extra_info": {"max_turns": turns}} for turns in (4, 4, 5)]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "rows")
    with pytest.raises(SetupError, match=r"row 2: max_turns is 5 and the env's is 4; set env\.max_turns to it"):
        SearchEnv(tasks=str(tmp_path / "rows"), max_turns=4)


def test_a_name_that_no_hub_knows_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(SetupError, match="cannot load 'nobody/nothing'") as caught:
        load_rows("nobody/nothing")
    assert "\n" not in str(caught.value)


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys; sys.modules['datasets'] = None\n"
        "from envgym.task_dataset import load_rows\n"
        "try: load_rows('a/b')\n"
        "except ValueError as error: print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "the dataset 'a/b' needs more packages" in printed
    assert "pip install 'envgym[datasets]'" in printed
