import json

import pytest

from envgym.errors import SetupError
from envgym.sql.layouts import database_folder, find_database, load_tasks
from envgym.sql.source import file_source

SPIDER = {"question": "How many?", "query": "SELECT count(*) FROM t", "db_id": "one"}


def write(path, records):
    path.write_text(json.dumps(records))
    return str(path)


def test_spider(tmp_path):
    (task,) = load_tasks(write(tmp_path / "dev.json", [SPIDER]))
    assert task.id == "dev-0"
    assert task.data["question"] == "How many?" and task.data["db_id"] == "one"
    assert task.answer == {"golds": ("SELECT count(*) FROM t",)}
    assert "count" not in repr(task)


def test_bird_has_evidence(tmp_path):
    record = {
        "question": "q",
        "SQL": "SELECT 1",
        "db_id": "one",
        "evidence": "one means 1",
        "difficulty": "simple",
    }
    (task,) = load_tasks(write(tmp_path / "dev.json", [record]))
    assert (task.data["evidence"], task.answer["golds"]) == ("one means 1", ("SELECT 1",))


def test_skyrl_takes_the_question_from_the_prompt_and_the_folder_from_data(tmp_path):
    record = {
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "How many?"}],
        "reward_spec": {"ground_truth": "SELECT 1"},
        "db_id": "one",
        "data": "synsql",
    }
    (tmp_path / "train.jsonl").write_text(json.dumps(record) + "\n")
    (task,) = load_tasks(str(tmp_path / "train.jsonl"))
    assert (task.data["question"], task.answer["golds"]) == ("How many?", ("SELECT 1",))
    file = tmp_path / "SynSQL-2.5M" / "databases" / "one" / "one.sqlite"
    file.parent.mkdir(parents=True)
    file.touch()
    assert find_database(tmp_path, task.data["db_id"], task.data["collection"]) == file


def test_defog_accepts_several_golds_from_csv_and_json_lines(tmp_path):
    (tmp_path / "q.csv").write_text("db_name,query,question\none,\"SELECT 1; SELECT ';';\",q\n")
    (tmp_path / "q.jsonl").write_text(
        json.dumps({"db_id": "one", "golds": ["SELECT 1", "SELECT ';'"], "question": "q"})
    )
    for name in ("q.csv", "q.jsonl"):
        (task,) = load_tasks(str(tmp_path / name))
        assert task.answer["golds"] == ("SELECT 1", "SELECT ';'")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "holds no tasks"),
        ("{", "is not JSON"),
        ('{"a": 1}', "must hold a list"),
        ('[{"a": 1}]', "fits no layout"),
        ('[{"query": "SELECT 1", "question": "q"}]', "record 0 lacks a field"),
        ('[{"query": 5, "question": "q", "db_id": "one"}]', "record 0"),
        ("[5]", "record 0 is not an object"),
    ],
)
def test_a_malformed_task_file_is_named_with_its_fault(tmp_path, content, message):
    path = tmp_path / "tasks.json"
    path.write_text(content)
    with pytest.raises(SetupError, match=message) as caught:
        load_tasks(str(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_bad_line_is_named(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(SPIDER) + "\n{\n")
    with pytest.raises(SetupError, match=r"tasks\.jsonl, line 2"):
        load_tasks(str(path))


def test_unknown_endings_and_layouts_and_missing_files_are_refused(tmp_path):
    path = write(tmp_path / "tasks.json", [SPIDER])
    with pytest.raises(SetupError, match=r"neither a dataset nor a file that ends in \.json, \.jsonl, \.csv"):
        load_tasks(str(tmp_path / "tasks.xml"))
    with pytest.raises(SetupError, match="there is no task file"):
        load_tasks(str(tmp_path / "missing.json"))
    with pytest.raises(SetupError, match="spider, bird, skyrl, defog"):
        load_tasks(path, "wikisql")


@pytest.mark.slow
def test_tasks_come_from_a_dataset(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list([SPIDER]).save_to_disk(tmp_path / "tasks")
    (tmp_path / "one.sqlite").touch()
    source = str(tmp_path / "tasks")
    tasks = file_source(source, source, str(tmp_path), "auto").tasks["eval"]
    assert tasks[0].answer == {"golds": ("SELECT count(*) FROM t",)}


@pytest.mark.parametrize("pattern", ["one/one.sqlite", "one.sqlite", "one/one.db", "one.db"])
def test_databases_are_found_in_every_layout(tmp_path, pattern):
    path = tmp_path / pattern
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert find_database(tmp_path, "one") == path


@pytest.mark.parametrize(
    "name", ["../one", "/etc/passwd", "one/../../one", "a\0b", "", ".", "..", ".hidden", "a\\b", "one/one"]
)
def test_a_database_name_that_is_a_path_is_refused(tmp_path, name):
    (tmp_path / "inner").mkdir()
    (tmp_path / "one.sqlite").touch()
    with pytest.raises(SetupError, match="must be a plain name"):
        find_database(tmp_path / "inner", name)


def test_symbolic_links_below_the_folder_are_refused(tmp_path):
    outside = tmp_path / "outside.sqlite"
    outside.touch()
    folder = tmp_path / "database"
    (folder / "two").mkdir(parents=True)
    (folder / "one.sqlite").symlink_to(outside)
    (folder / "two" / "two.sqlite").symlink_to(outside)
    (folder / "three").symlink_to(tmp_path)
    (tmp_path / "three.sqlite").touch()
    for name in ("one", "two", "three"):
        with pytest.raises(SetupError, match="symbolic link"):
            find_database(folder, name)


def test_the_folder_itself_may_be_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "one.sqlite").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert find_database(tmp_path / "link", "one") == tmp_path / "real" / "one.sqlite"


@pytest.mark.parametrize("name", ["database", "databases", "dev_databases"])
def test_the_database_folder_is_found_beside_the_task_file(tmp_path, name):
    (tmp_path / name).mkdir()
    assert database_folder(write(tmp_path / "dev.json", [SPIDER])) == tmp_path / name
    with pytest.raises(SetupError, match=r"env\.databases"):
        database_folder("xlangai/spider")


def test_a_missing_database_is_reported_when_tasks_are_loaded(tmp_path):
    path = write(tmp_path / "dev.json", [SPIDER])
    with pytest.raises(SetupError, match="there is no database 'one'"):
        file_source(path, path, None, "auto")


def test_one_task_file_is_divided_by_database(tmp_path):
    names = [f"db{number}" for number in range(20)]
    for name in names:
        (tmp_path / f"{name}.sqlite").touch()
    path = write(tmp_path / "dev.json", [{**SPIDER, "db_id": name} for name in names for _ in range(3)])
    tasks = file_source(path, None, None, "auto").tasks
    databases = {split: {task.data["db_id"] for task in tasks[split]} for split in tasks}
    assert databases["train"] and databases["eval"]
    assert not databases["train"] & databases["eval"]
    assert databases["train"] | databases["eval"] == set(names)


def test_too_few_databases_to_divide_is_said(tmp_path):
    (tmp_path / "one.sqlite").touch()
    with pytest.raises(SetupError, match="name eval_tasks"):
        file_source(write(tmp_path / "dev.json", [SPIDER]), None, None, "auto")
