import os
from pathlib import Path

import pytest

from envgym import SetupError
from envgym.json_lines import read_json_lines


def read(path: Path) -> list[tuple[int, dict[str, object]]]:
    return list(read_json_lines(path, "tasks file"))


def test_objects_come_with_the_number_of_their_line_and_blank_lines_are_skipped(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n  \n{"a": "é\u2028ü"}', encoding="utf-8")
    assert read(path) == [(1, {"a": 1}), (4, {"a": "é\u2028ü"})]


def test_a_byte_order_mark_and_windows_line_ends_are_read_over(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}\r\n')
    assert [fields for _, fields in read(path)] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a": 1', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ("[1, 2]", "a list stands where an object should be"),
        ("null", "a NoneType stands where an object should be"),
        ('{"a": ' + "1" * 5_000 + "}", "JSON that cannot be read"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "JSON that cannot be read"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(tmp_path: Path, line: str, reason: str):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n' + line + "\n")
    with pytest.raises(SetupError, match=reason) as caught:
        read(path)
    assert f"{path}, line 2: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_whole_surrogate_pair_is_text(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "\\ud83d\\ude00"}')
    assert read(path) == [(1, {"a": "\U0001f600"})]


def test_bytes_that_are_no_utf_8_are_refused(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(SetupError, match="not UTF-8 text"):
        read(path)


def test_a_file_that_is_missing_or_a_folder_is_refused_with_what_to_do(tmp_path: Path):
    for path in (tmp_path / "missing.jsonl", tmp_path):
        with pytest.raises(SetupError, match=r"tasks file .* does not exist; give the path of a JSON-lines file"):
            read(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(SetupError, match="cannot be read: Permission denied"):
        read(path)
