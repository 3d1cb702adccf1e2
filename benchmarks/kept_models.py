"""What it brings that Ray's actors keep their encoder from part to part: ``embed_passages`` over small parts.

``python benchmarks/kept_models.py [--parts N] [--rows N]``: the last line is one JSON object. A cluster of one node
with two processors, started beforehand; three turns in one run:

- ``local``: the step's own process, which loads the encoder once;
- ``kept``: Ray's actors as they are;
- ``anew``: actors that are ended after each part, so that each part loads the encoder.

All make the same bytes, or the run ends.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.encode import MODEL, sample_texts  # noqa: E402
from benchmarks.measure import finish, measured, show, spread, turns  # noqa: E402
from tests.core.ray_cluster import TOKEN, one_node  # noqa: E402

WAYS = ("local", "kept", "anew")


def run(way: str, address: str, parts: list[list[str]]) -> tuple[float, list[str]]:
    """Seconds of the step, and the sha256 of each part that it made."""
    os.environ.update({"FOUNDRY_ENGINE": "local" if way == "local" else "ray", "RAY_ADDRESS": address})
    from pipeline_tasks.core.engines import actors
    from pipeline_tasks.core.execution.runner import run_job
    from pipeline_tasks.core.manifest import Ref
    from pipeline_tasks.core.plan import plan
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.core.versions import load_manifest
    from pipeline_tasks.datasets import PASSAGES
    from pipeline_tasks.retrieval.embed_passages import embed_passages
    from tests.stores import put

    if way == "anew":
        actors._KEPT_S = -1
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder))
        rows = ([{"passage_id": f"p{at}-{n}", "text": text} for n, text in enumerate(p)] for at, p in enumerate(parts))
        put(store, PASSAGES, *rows)
        job = plan(store, embed_passages, {"model": MODEL})
        began = time.perf_counter()
        run_job(store, job)
        seconds = time.perf_counter() - began
        return seconds, [part.sha256 for part in load_manifest(store, Ref.parse(f"embeddings/{MODEL}")).parts]


def main() -> None:
    """Print the table and the line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", type=int, default=6)
    parser.add_argument("--rows", type=int, default=8)
    asked = parser.parse_args()
    texts = sample_texts(asked.parts * asked.rows)
    parts = [texts[at : at + asked.rows] for at in range(0, len(texts), asked.rows)]
    os.environ.update(TOKEN)  # each turn is a process of its own, which finds it there
    with one_node() as address:
        got = turns(WAYS, lambda way: measured(run, way, address, parts).value)
    if len({tuple(made) for runs in got.values() for _, made in runs}) > 1:
        raise SystemExit("not all ways made the same bytes")
    took = {way: min(seconds for seconds, _ in runs) for way, runs in got.items()}
    show(
        f"{asked.parts} parts of {asked.rows} passages, {MODEL}, seconds of the fastest of three turns",
        ("way", "seconds", "over local"),
        [(way, seconds, seconds / took["local"]) for way, seconds in took.items()],
    )
    figures = {
        "parts": asked.parts,
        "rows": len(texts),
        **{f"{way}_s": round(seconds, 2) for way, seconds in took.items()},
        "ratio_anew_to_kept": round(took["anew"] / took["kept"], 2),
    }
    finish(figures, {way: spread(seconds for seconds, _ in runs) for way, runs in got.items()})


if __name__ == "__main__":
    main()
