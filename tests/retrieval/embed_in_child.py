"""Embeds the passages of a store in a process that can be killed: ``python embed_in_child.py STORE MODEL``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pipeline_tasks.core.store import LocalStore  # noqa: E402
from pipeline_tasks.retrieval.embed_passages import embed_passages  # noqa: E402
from tests.stores import go  # noqa: E402

if __name__ == "__main__":
    go(LocalStore(Path(sys.argv[1])), embed_passages, model=sys.argv[2], concurrency=1)
