import threading
from pathlib import Path

import pytest

from envgym import SetupError
from envgym.cache import cache_folder, make_once


def test_the_folder_is_chosen_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("ENVGYM_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("ENVGYM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "envgym"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "envgym"


def test_it_is_made_once_and_seen_only_whole(tmp_path):
    made: list[Path] = []
    target = tmp_path / "deep" / "target"

    def make(aside: Path) -> None:
        made.append(aside)
        assert not target.exists() and aside != target
        (aside / "file").write_text("x")

    for _ in range(2):
        assert (make_once(target, make) / "file").read_text() == "x"
    assert len(made) == 1
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_several_at_once_end_with_one_result(tmp_path):
    barrier = threading.Barrier(4)
    target = tmp_path / "target"

    def make(aside: Path) -> None:
        barrier.wait()
        (aside / "file").write_text("x")

    threads = [threading.Thread(target=make_once, args=(target, make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (target / "file").read_text() == "x"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_failure_leaves_nothing_behind(tmp_path):
    def fail(aside: Path) -> None:
        (aside / "file").write_text("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        make_once(tmp_path / "target", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_setup_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SetupError, match="ENVGYM_CACHE"):
        make_once(tmp_path / "file" / "target", lambda aside: None)
