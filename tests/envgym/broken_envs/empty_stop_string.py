"""An empty stop string would stop sampling before the first token."""

from broken_envs.sound import Sound

CAUGHT_BY = "declarations"


class Env(Sound):
    stop_strings = ("</ask>", "")
