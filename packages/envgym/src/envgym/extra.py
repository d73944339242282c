"""Optional dependencies: parts of envgym that need more than ``pip install envgym`` brings."""

from envgym.errors import SetupError


def missing_extra(extra: str, purpose: str, error: ImportError) -> SetupError:
    """The error for a part that was chosen without its extra.

    >>> print(missing_extra("http", "retriever 'http'", ImportError("No module named 'httpx'")))
    retriever 'http' needs more packages (No module named 'httpx'); run: pip install 'envgym[http]'
    """
    return SetupError(f"{purpose} needs more packages ({error}); run: pip install 'envgym[{extra}]'")
