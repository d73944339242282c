"""Things named in config by ``package.module:attribute``."""

from importlib import import_module
from typing import Any

from envgym import SetupError


def load_attribute(path: str, key: str) -> Any:
    """Import what a dotted path names; ``key`` is the config key that holds it.

    Raises:
        SetupError: if the path is malformed, or the module or the attribute is not there.
    """
    module_name, separator, attribute = path.partition(":")
    if not (module_name and separator and attribute):
        raise SetupError(f"{key}={path} must have the form package.module:attribute")
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise SetupError(f"{key}={path} cannot be imported: {error}") from error
    if attribute not in vars(module):
        raise SetupError(f"{key}={path}: module {module_name} has no attribute {attribute}")
    return vars(module)[attribute]
