"""Where results are printed."""

from __future__ import annotations

import sys

from rich.console import Console

_WIDTH_OF_PIPES = 200


def console() -> Console:
    """Standard output; wide where no terminal says how wide it is, so that nothing is cut in a pipe."""
    return Console() if sys.stdout.isatty() else Console(width=_WIDTH_OF_PIPES)
