"""Schedules of a model of the store under kills, power cuts and other processes: none may lose or halve an object.

``python benchmarks/store_schedules.py 2000`` in a folder, ``… 200 --bucket`` against a SeaweedFS; ``--seed N`` for
others. What a schedule is: ``tests/core/machine.py``. The last line is one JSON object. The first schedule that
fails is printed, and ends with 1.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipeline_tasks.core import progress  # noqa: E402
from tests.core.machine import StoreMachine  # noqa: E402
from tests.core.schedules import in_bucket, in_folder, run_schedules  # noqa: E402
from tests.seaweed import running  # noqa: E402

MEMORY = Path("/dev/shm")


def counting(machine: type[StoreMachine], done: progress.Meter) -> type[StoreMachine]:
    """The same machine, which says when a schedule is over."""

    class Counting(machine):
        def teardown(self) -> None:
            super().teardown()
            done.advance()

    return Counting


def main() -> None:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("schedules", type=int)
    parser.add_argument("--bucket", action="store_true", help="against SeaweedFS, not in a folder")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    logging.basicConfig(format="%(message)s", level=logging.CRITICAL)
    logging.getLogger(progress.__name__).setLevel(logging.INFO)
    began = time.monotonic()
    with ExitStack() as stack:
        memory = MEMORY if MEMORY.is_dir() else None
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        if asked.bucket:
            server = stack.enter_context(running(root / "seaweed"))
            os.environ.update(server.environment)
            machine = in_bucket(server, root / "caches")
        else:
            machine = in_folder(root / "stores")
        done = stack.enter_context(progress.meter("store", asked.schedules, "schedules"))
        run_schedules(counting(machine, done), asked.schedules, seed=asked.seed)
    figures = {"schedules": asked.schedules, "store": "bucket" if asked.bucket else "folder", "seed": asked.seed}
    print(json.dumps(figures | machine.counts | {"duration_s": round(time.monotonic() - began)}))


if __name__ == "__main__":
    main()
