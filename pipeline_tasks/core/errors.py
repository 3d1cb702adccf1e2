"""The one family of errors. A message says what was wrong, with the value, and what to do about it."""

EXIT_DONE = 0
EXIT_CALLER = 2
EXIT_RETRY = 75
OPEN = "open"
"""Begins the last line of the standard output of ``foundry batch`` where it exits with 75 and nothing failed: answers
are on their way, or a run of the step asks."""


class FoundryError(Exception):
    """Base of every error raised on purpose. ``exit_code`` is what the command line exits with."""

    exit_code = EXIT_CALLER


class InputError(FoundryError):
    """The caller's mistake (parameter, dataset, schema, configuration): retrying cannot help."""


def installed_with(extra: str) -> str:
    """How one gets what an extra of pyproject.toml brings. No package index has the project itself."""
    return f"pip install -c constraints.txt -e '.[{extra}]' in the project's folder"


class TransientError(FoundryError):
    """Something outside failed and may work later (network, busy endpoint): try again."""

    exit_code = EXIT_RETRY
