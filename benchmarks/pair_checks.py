"""The checks of written pairs on pairs that are good, and on planted ones that are not.

    python benchmarks/pair_checks.py --data disaster_guides [--rows 1000000]

``--data`` is a folder with ``train.jsonl`` (passage_id, document, intent, need, query, positive) and ``corpus.jsonl``
(_id, text): pairs that a strong writer wrote from real passages. 300 answers of ten bad kinds are made from them by
rule. The bounds of the checks were set with an eye on these good pairs; the bad ones are of the checks' own kinds, and
say that each does what it is for, not how bad answers of a model are spread. ``--rows``: how fast so many are checked,
and a tenth of them, in one process; each row is one of the good pairs with its number in all texts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import cycle
from pathlib import Path

from benchmarks.measure import measured, show
from benchmarks.planted_answers import Bad, Pair, bad_answers, strangers
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.synthesis.checking.checks import bounds_of, fault_of
from pipeline_tasks.synthesis.checking.measures import Draft
from pipeline_tasks.synthesis.checking.parse import Rejected
from pipeline_tasks.synthesis.llm.client import Response
from pipeline_tasks.synthesis.llm.endpoint import LlmParams
from pipeline_tasks.synthesis.prompting.writers import Writer, writer_of


def read_given(data: Path) -> list[Pair]:
    """The pairs of a folder, with the passages that they were written from."""
    texts = {row["_id"]: row["text"] for row in _rows(data / "corpus.jsonl")}
    return [
        Pair(r["intent"], r["query"], r["positive"], texts[r["passage_id"]], r["document"], r["need"])
        for r in _rows(data / "train.jsonl")
    ]


def reason_of(source: Pair, answer: str) -> str:
    """Why an answer to the prompt about a passage is refused; empty for one that is kept."""
    writer = _writer(source.intent)
    prompt = writer.ask_pair(source.passage, source.need, key="p")
    found = writer.read_pair(Response("", answer, 0, 0, False, 0.0, "stop", 0), prompt)
    return found.reason if isinstance(found, Rejected) else ""


def tables(pairs: Sequence[Pair], spoilt: Sequence[Pair]) -> tuple[dict[str, dict[str, int]], list[tuple[Bad, str]]]:
    """Reasons of good pairs by intent (kept ones under ""), and of each bad answer that is made from the others."""
    good: dict[str, Counter[str]] = {}
    for pair in pairs:
        good.setdefault(pair.intent, Counter())[reason_of(pair, pair.answer)] += 1
    bad = [(one, reason_of(one.source, one.answer)) for one in (*bad_answers(spoilt), *strangers(spoilt))]
    return {intent: dict(found) for intent, found in good.items()}, bad


def checked(pairs: Sequence[Pair], n: int) -> int:
    """How many of ``n`` pairs are kept; no two have a text in common, so that nothing is remembered."""
    bounds = {pair.intent: bounds_of("chat", pair.intent) for pair in pairs}
    kept = 0
    for i, pair in zip(range(n), cycle(pairs), strict=False):
        draft = Draft(f"{pair.query} {i}", f"{pair.passage} {i}", f"{pair.positive} {i}")
        kept += not fault_of(draft, bounds[pair.intent])
    return kept


def speeds(pairs: Sequence[Pair], n: int) -> dict[str, float]:
    """Rows a second and memory of a tenth of ``n`` rows and of all, in a table; the figures of all."""
    runs = {rows: measured(checked, pairs, rows) for rows in (n // 10, n)}
    shown = [(f"{rows:,}", f"{rows / run.seconds:,.0f}", run.value, run.peak_mib) for rows, run in runs.items()]
    show("Checks of rows, one process", ("rows", "rows/s", "kept", "peak MiB"), shown)
    growth = runs[n].seconds / runs[n // 10].seconds
    return {"rows": n, "rows_per_s": n / runs[n].seconds, "peak_mib": runs[n].peak_mib, "growth": growth}


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was kept and refused, and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=0, help="measure the checks on so many rows")
    options = parser.parse_args(argv)
    pairs = read_given(options.data)
    good, bad = tables(pairs, pairs)
    kept = {intent: found.get("", 0) / sum(found.values()) for intent, found in good.items()}
    for intent, found in good.items():
        refused = ", ".join(f"{reason} {n}" for reason, n in sorted(found.items()) if reason)
        _say(f"{intent:10} {sum(found.values()):5} good, kept {kept[intent]:.1%}; refused: {refused or 'none'}")
    right = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for one, reason in bad:
        for key in (("kind", one.kind), ("intent", one.source.intent)):
            right[0][key] += 1
            right[1][key] += reason in one.reasons
        if reason not in one.reasons:
            _say(f"{one.kind} of {one.source.intent}: {reason or 'kept'}: {one.answer[:200]}")
    for (by, name), n in right[0].items():
        _say(f"{by} {name:16} {n:4} bad, {right[1][by, name]} refused for the right reason")
    refused = {name: right[1]["kind", name] / n for (by, name), n in right[0].items() if by == "kind"}
    n_right = sum(n for (by, _), n in right[1].items() if by == "kind")
    figures = {"good": len(pairs), "kept": kept, "bad": len(bad), "refused": n_right / len(bad), "by_kind": refused}
    figures |= speeds(pairs, options.rows) if options.rows else {}
    _say(json.dumps(figures))
    return 0


@cache
def _writer(intent: str) -> Writer:
    return writer_of(domain_folder(), intent, LlmParams(llm="any", api="chat"))


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
