"""Tasks out of Hugging Face ``datasets``: by name on the hub, or from a folder or file on disk.

    openai/gsm8k:main@train     name : configuration @ split
    my/dataset                  the only configuration; the split ``train``, or the only one
    ./saved@test                a folder written by ``save_to_disk``, or one that ``load_dataset`` understands
    rows.parquet, rows.arrow, rows.csv, rows.json

Needs the extra ``datasets``, imported when the first dataset is loaded.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast, overload

from envgym.errors import SetupError
from envgym.extra import missing_extra
from envgym.messages import Task

FILE_FORMATS = {".parquet": "parquet", ".arrow": "arrow", ".csv": "csv", ".json": "json"}

_NAME = re.compile(r"(?P<name>[\w.-]+(?:/[\w.-]+)?)(?::(?P<config>[\w.+-]+))?(?:@(?P<split>[\w.-]+))?\Z")


class Rows(Protocol):
    """A table of rows that are decoded one at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Mapping[str, Any]: ...


class _Exceptions(Protocol):
    DatasetsError: type[Exception]


class _Library(Protocol):
    """What is used of the package ``datasets``, which has no complete types."""

    exceptions: _Exceptions

    def load_dataset(self, path: str, name: str | None = None, *, data_files: str | None = None) -> object: ...

    def load_from_disk(self, path: str) -> object: ...


def is_dataset(source: str) -> bool:
    """Whether ``source`` names a dataset rather than a JSON-lines file.

    >>> [is_dataset(source) for source in ("openai/gsm8k:main@train", "rows.parquet", "tasks.jsonl", "../tasks")]
    [True, True, False, False]
    """
    path, _ = _split_off(source)
    if path.exists():
        return path.is_dir() or path.suffix in FILE_FORMATS
    looks_like_a_path = source.startswith((".", "/", "~")) or path.suffix in (".jsonl", ".ndjson", ".txt")
    return path.suffix in FILE_FORMATS or bool(not looks_like_a_path and _NAME.match(source))


@lru_cache(maxsize=32)
def load_rows(source: str) -> Rows:
    """Load the rows of a dataset, once per process.

    Raises:
        SetupError: if the extra is missing, if nothing can be loaded under this name, or if it is not clear which
            split is meant.
    """
    datasets = _import_library(source)
    path, split = _split_off(source)
    try:
        if path.exists():
            loaded = _load_path(datasets, path)
        elif path.suffix in FILE_FORMATS:
            raise SetupError(f"there is no file {path}")
        else:
            loaded, split = _load_name(datasets, source)
    except SetupError:
        raise
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:  # a hub that is away is an OSError
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise SetupError(f"cannot load {source!r}, neither from disk nor as a dataset's name: {reason}") from error
    return _pick_split(source, loaded, split)


def _import_library(source: str) -> _Library:
    try:
        return cast("_Library", import_module("datasets"))
    except ImportError as error:
        raise missing_extra("datasets", f"the dataset {source!r}", error) from error


def _split_off(source: str) -> tuple[Path, str | None]:
    """``folder@test`` as a path and a split. A path that exists as it stands has no split."""
    whole = Path(source).expanduser()
    path, at, split = source.rpartition("@")
    return (Path(path).expanduser(), split) if at and not whole.exists() else (whole, None)


def _load_path(datasets: _Library, path: Path) -> object:
    if path.is_file():
        return datasets.load_dataset(FILE_FORMATS[path.suffix], data_files=str(path))
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        return datasets.load_from_disk(str(path))
    return datasets.load_dataset(str(path))


def _load_name(datasets: _Library, source: str) -> tuple[object, str | None]:
    match = _NAME.match(source)
    if match is None:
        raise SetupError(f"{source!r} is no dataset; a name looks like openai/gsm8k:main@train")
    return datasets.load_dataset(match["name"], match["config"]), match["split"]


def _pick_split(source: str, loaded: object, split: str | None) -> Rows:
    if not isinstance(loaded, dict):
        if split is not None:
            raise SetupError(f"{source!r} names a split, and the dataset has none; leave out @{split}")
        return cast("Rows", loaded)
    tables = cast("dict[str, Rows]", loaded)
    chosen = split or ("train" if "train" in tables or len(tables) != 1 else next(iter(tables)))
    if chosen not in tables:
        raise SetupError(
            f"{source!r} has no split {chosen!r}; name one of {', '.join(sorted(tables))} behind an @"
        )
    return tables[chosen]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowTasks(Sequence[Task]):
    """Tasks that are made from the rows of a table whenever they are asked for."""

    rows: Rows
    numbers: Sequence[int]
    """The rows that are tasks, in order."""
    make: Callable[[Mapping[str, Any], int], Task]
    """Makes a task from a row and its number."""

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> "RowTasks": ...

    def __getitem__(self, index: int | slice) -> "Task | RowTasks":
        if isinstance(index, slice):
            return replace(self, numbers=self.numbers[index])
        number = self.numbers[index]
        return self.make(self.rows[number], number)

    def select(self, positions: Sequence[int]) -> "RowTasks":
        """The tasks at these positions."""
        return replace(self, numbers=[self.numbers[position] for position in positions])
