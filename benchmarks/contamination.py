"""The decontamination gate: planted copies of judged sets among clean pairs, and a million rows through it.

``python benchmarks/contamination.py --data FOLDER [--quick]``: ``FOLDER`` has judged sets in BEIR's layout, one of them
``disaster_guides`` with pairs in ``train.jsonl``. The clean pairs are of that file: a strong writer's, on other
documents of the same publishers than the judged queries ask about. Rows of the second table are made, and judged texts
are planted in one of a thousand. Seconds are of the processor, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.judged_sets import needed  # noqa: E402
from benchmarks.measure import finish, measured, show  # noqa: E402
from benchmarks.ranked_store import put_blocks  # noqa: E402

SETS = ("disaster_guides", "climate_fever_local", "cranfield", "multihoprag_snippets")
CLEAN, EACH = 1000, 200
RUN, PART, KNOWN = 13, 20_000, 20_000
KINDS = ("exact", "normalised", "13gram", "near")
_WORD = re.compile(r"\w+")


def judged(root: str, data: Path) -> tuple[list[str], list[str]]:
    """Read the sets into the store at ``root``; their queries, and the passages that answer one."""
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.evaluation.judge_queries import judge_queries
    from pipeline_tasks.evaluation.read_passages import read_passages
    from tests.stores import go, rows

    store = LocalStore(Path(root))
    queries, passages = [], []
    for name in SETS:
        place = {"set_name": name, "folder": str(data / name)}
        corpus = str(go(store, read_passages, **place).ref)
        go(store, judge_queries, {"passages": [corpus]}, **place)
        texts = {row["passage_id"]: row["text"] for row in rows(store, f"corpus/{name}")}
        for row in rows(store, f"judged/{name}"):
            queries.append(row["query"])
            graded = zip(row["passage_ids"], row["grades"], strict=True)
            passages += [texts[passage] for passage, grade in graded if grade > 0]
    return list(dict.fromkeys(queries)), list(dict.fromkeys(passages))


def copy_of(text: str, kind: str, chance: np.random.Generator) -> str:
    """A copy of ``text``; a run is put between words of nobody."""
    words = _WORD.findall(text)
    if kind == "exact":
        return text
    if kind == "normalised":
        return "  ".join(words).swapcase() + " !"
    if kind == "near":
        return " ".join(chance.permutation(words))
    at = int(chance.integers(0, len(words) - RUN + 1))
    return f"nobody ever said {' '.join(words[at : at + RUN])} to anyone"


def half_of(text: str) -> str:
    """More than half of a passage's runs of words, in the middle of another passage."""
    words = _WORD.findall(text)
    taken = (len(words) - RUN + 1) // 2 + RUN
    return " ".join([*(f"before{i}" for i in range(80)), *words[:taken], *(f"after{i}" for i in range(80))])


def plants(queries: list[str], passages: list[str]) -> Iterator[dict[str, str]]:
    """Pairs with a copy in the query or in the positive; their ids begin with the reason that is right."""
    chance = np.random.default_rng(0)
    for what, known in (("query", queries), ("passage", passages)):
        texts = [text for text in known if len(_WORD.findall(text)) >= RUN + 5]
        for kind in KINDS if what == "query" else KINDS[:-1]:
            for i, text in enumerate(chance.choice(texts, EACH, replace=False).tolist()):
                copy = half_of(text) if what == "passage" and kind == "13gram" else copy_of(text, kind, chance)
                copies = {"query": copy, "positive": "nothing"} if what == "query" else {"query": "", "positive": copy}
                yield {"query_id": f"{what}_{kind}/{i}", "split": "train", "passage": ""} | copies


def count_refusals(root: str, data: str) -> dict[str, Counter]:
    """Reason that is right, or ``clean`` -> how many pairs were refused for which reason."""
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.datasets import PAIRS
    from pipeline_tasks.synthesis.decontaminate_pairs import decontaminate_pairs
    from tests.stores import go, put, rejects

    queries, passages = judged(root, Path(data))
    with (Path(data) / SETS[0] / "train.jsonl").open(encoding="utf-8") as lines:
        written = [json.loads(line) for _, line in zip(range(CLEAN), lines, strict=False)]
    clean = [
        {"query_id": f"clean/{i}", "split": "train", "passage": ""} | {n: row[n] for n in ("query", "positive")}
        for i, row in enumerate(written)
    ]
    store = LocalStore(Path(root))
    pairs = [*clean, *plants(queries, passages)]
    put(store, PAIRS, pairs, dataset="mtp/combined")
    go(store, decontaminate_pairs, sets=SETS, max_contaminated=1)
    refused = rejects(store, "mtp")
    reasons: dict[str, Counter] = {}
    for pair in pairs:
        mine = reasons.setdefault(pair["query_id"].partition("/")[0], Counter())
        mine[refused[pair["query_id"]]["reason"] if pair["query_id"] in refused else "kept"] += 1
    return reasons


def plant_rows(root: str, n: int) -> None:
    """``n`` pairs, two a passage, and a judged set of as many passages as are usual; one in a thousand is a copy."""
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.datasets import JUDGED_QUERIES, PAIRS, PASSAGES

    store, words = LocalStore(Path(root)), np.array([f"word{i}" for i in range(20_000)])

    def texts(n: int, length: int, seed: list[int]) -> list[str]:
        chosen = words[np.random.default_rng(seed).integers(0, len(words), (n, length))]
        return [" ".join(row) for row in chosen.tolist()]

    ids, known, asked = [f"p{i}" for i in range(KNOWN)], texts(KNOWN, 90, [1]), texts(KNOWN, 12, [2])
    put_blocks(store, PASSAGES, "corpus/made", iter([{"passage_id": ids, "text": known}]))
    judged = {"query_id": ids, "query": asked, "passage_ids": [[i] for i in ids], "grades": [[1]] * KNOWN}
    put_blocks(store, JUDGED_QUERIES, "judged/made", iter([judged]))

    def blocks() -> Iterator[dict]:
        for at in range(0, n, PART):
            size = min(PART, n - at)
            own, positives = texts(size, 12, [3, at]), texts(size, 90, [4, at])
            own[::2000], positives[1000::2000] = asked[: len(own[::2000])], known[: len(positives[1000::2000])]
            sources = np.repeat(texts((size + 1) // 2, 90, [5, at]), 2)[:size].tolist()
            names = [f"q{i}" for i in range(at, at + size)]
            yield {"query_id": names, "query": own, "positive": positives, "passage": sources, "split": "train"}

    put_blocks(store, PAIRS, "mtp/combined", blocks())


def gate(root: str) -> dict[str, float]:
    """Processor seconds of the step and how many pairs it refused; compiled code is loaded before the clock starts."""
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.synthesis.decontaminate_pairs import decontaminate_pairs
    from tests.stores import go

    with tempfile.TemporaryDirectory() as small:
        plant_rows(small, 2000)
        go(LocalStore(Path(small)), decontaminate_pairs, sets=("made",))
    began = time.process_time()
    counters = go(LocalStore(Path(root)), decontaminate_pairs, sets=("made",)).counters
    return {"seconds": time.process_time() - began, "refused": counters["rows_rejected"]}


def main() -> None:
    """Print the tables and the line of JSON."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--data", type=Path, required=True, help="folder with judged sets")
    options.add_argument("--quick", action="store_true", help="small sizes: does it run?")
    chosen = options.parse_args()
    needed(chosen.data)
    with tempfile.TemporaryDirectory() as root:
        reasons = measured(count_refusals, root, str(chosen.data)).value
    rows = [(name, sum(of.values()), of[name], sum(of.values()) - of["kept"], dict(of)) for name, of in reasons.items()]
    title = f"{', '.join(SETS)}: pairs refused"
    show(title, ("pairs", "number", "for that reason", "at all", "all reasons"), rows)
    sizes = (5_000, 10_000, 20_000) if chosen.quick else (100_000, 300_000, 1_000_000)
    rows = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as root:
            plant_rows(root, n)
            got = measured(gate, root)
        rows.append((n, got.value["seconds"], n / got.value["seconds"], got.value["refused"], got.peak_mib))
    show(
        f"Rows of 12, 90 and 90 words against {KNOWN:,} judged queries and passages; seconds of the processor",
        ("rows", "seconds", "rows/s", "refused", "peak MiB"),
        rows,
    )
    planted = {name: of for name, of in reasons.items() if name != "clean"}
    copies = sum(sum(of.values()) for of in planted.values())
    finish(
        {
            "copies": copies,
            "copies_found": copies - sum(of["kept"] for of in planted.values()),
            "clean": sum(reasons["clean"].values()),
            "clean_refused": sum(reasons["clean"].values()) - reasons["clean"]["kept"],
            "rows": sizes[-1],
            "rows_per_processor_s": round(rows[-1][2]),
            "peak_mib": round(rows[-1][4]),
            "growth": round(rows[-1][1] / rows[0][1] / (sizes[-1] / sizes[0]), 2),
        }
    )


if __name__ == "__main__":
    main()
