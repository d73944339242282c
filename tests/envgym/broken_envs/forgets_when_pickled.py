"""Its state does not survive a pickling."""

from typing import Any

from broken_envs.sound import Sound

CAUGHT_BY = "pickling"


class Env(Sound):
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "asked": 7}
