"""The one family of errors. A message says what was wrong, with the value, and what to do about it."""

EXIT_DONE = 0
EXIT_CALLER = 2
EXIT_RETRY = 75


class FoundryError(Exception):
    """Base of every error raised on purpose. ``exit_code`` is what the command line exits with."""

    exit_code = EXIT_CALLER


class InputError(FoundryError):
    """The caller's mistake (parameter, dataset, schema, configuration): retrying cannot help."""


class TransientError(FoundryError):
    """Something outside failed and may work later (network, busy endpoint): try again."""

    exit_code = EXIT_RETRY
