"""A text environment: break a code by guessing."""

from codebreaker.env import CodebreakerEnv

__all__ = ["CodebreakerEnv"]
