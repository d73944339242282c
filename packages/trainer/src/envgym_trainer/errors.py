"""What ends a run that was set up well."""


class RunError(RuntimeError):
    """The run cannot go on: it diverged, did not converge, or its numbers stopped agreeing.

    The message is one line. Commands print it without a traceback and exit with code 1.
    """
