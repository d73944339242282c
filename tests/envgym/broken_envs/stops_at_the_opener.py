"""Sampling stops where the answer begins."""

from broken_envs.sound import Sound

CAUGHT_BY = "stop_strings"


class Env(Sound):
    stop_strings = ("</ask>", "<answer>")
