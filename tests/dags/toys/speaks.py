"""A command that says what it sees, and ends as it is told."""

import json
import os
import sys
import time


def main() -> None:
    """``say`` something, ``exit`` with a code, or ``wait`` for ever."""
    how, *rest = sys.argv[1:]
    sys.stdout.write(json.dumps({"seen": dict(os.environ), "session": os.getsid(0), "process": os.getpid()}) + "\n")
    sys.stderr.write(how + "\n")
    if how == "exit":
        sys.exit(int(rest[0]))
    if how == "wait":
        time.sleep(3600)
