"""Where envgym keeps what it makes once and needs again: ``$ENVGYM_CACHE``, or the user's cache folder."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from envgym.errors import SetupError


def cache_folder() -> Path:
    """``$ENVGYM_CACHE``, else ``envgym`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. It need not exist yet."""
    if chosen := os.environ.get("ENVGYM_CACHE"):
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "envgym"


def make_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return ``target``, made first if it is not there.

    It is made aside and renamed, so that it is never seen half made, also when several processes make it at once.

    Args:
        target: a folder.
        make: fills an empty folder with what ``target`` holds.

    Raises:
        SetupError: if the cache folder cannot be written.
    """
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise SetupError(f"cannot write to the cache: {error}; set ENVGYM_CACHE to a folder of yours") from error
    try:
        make(aside)
        aside.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was faster, and its result is as good
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target
