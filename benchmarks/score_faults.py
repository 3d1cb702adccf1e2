"""Passages scored by an LLM, against a stand-in that fails at a fifth of its requests, killed and out of budget midway.

    python benchmarks/score_faults.py [--quick] [--queries N]

``score_passages`` asks for log-probabilities, two requests for each of a query's 20 passages, and ``grade_passages``
for grades, one request a query; both by the command line as a user calls them. The first is ended by SIGKILL at a
quarter of its answers, by its budget at half of them, and by SIGKILL again at three quarters; the other by SIGKILL at
half. The same steps run undisturbed in a store of their own, against a stand-in that refuses the same prompts and never
fails: rows and rejects of both are compared byte by byte.

The stand-in bills an answer once, as idempotency keys promise. ``sent_again`` counts answers that it had sent before
(cut off on the wire, or on their way at a kill): an endpoint without such keys may bill them again.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.killed_steps import peak_mib, processor_s, run, stored
from benchmarks.measure import finish, show
from benchmarks.scoring_llm import ScoringLLM

SHARE = 0.2
CONCURRENCY, TIMEOUT_S, RETRY_AFTER_S, DELAY_S = 32, 2.0, 0.1, 0.02
DEPTH, PARTS = 20, 2
MODEL = "all-minilm-l6-v2"
TOLD = {"llm": "m", "model": MODEL, "concurrency": CONCURRENCY, "timeout_s": TIMEOUT_S, "max_run_usd": "none"}
STEPS: dict[str, dict[str, Any]] = {"score_passages": TOLD, "grade_passages": TOLD | {"api": "chat"}}
DATASETS = {"score_passages": "relabelled/scored", "grade_passages": "relabelled/graded"}


def fill(root: Path, queries: int) -> None:
    """A store with queries, their nearest passages and what these say: about 1,400 characters each."""
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.datasets import INSTRUCTED_PAIRS, PASSAGES, RANKINGS
    from tests.stores import put

    drawn = random.Random(0)
    words = ["".join(drawn.choices("aeioulmnrst", k=drawn.randint(2, 9))) for _ in range(4_000)]
    passages = [f"p{n:05}" for n in range(2 * queries)]
    texts = {name: " ".join(drawn.choices(words, k=210)) for name in passages}
    near = {f"q{n:05}": drawn.sample(passages, min(DEPTH, len(passages))) for n in range(queries)}
    pairs = [
        {"query_id": name, "intent": "any", "query": " ".join(drawn.choices(words, k=9)), "split": "train"}
        | {"instruction": "Given a question, find a passage that answers it.", "passage_id": ids[n % len(ids)]}
        | {"positive_id": ids[n % len(ids)], "positive": texts[ids[n % len(ids)]]}
        for n, (name, ids) in enumerate(near.items())
    ]
    ranked = [
        {"query_id": pair["query_id"], "passage_id": pair["passage_id"], "passage_ids": near[pair["query_id"]]}
        for pair in pairs
    ]
    store, size = LocalStore(root), -(-queries // PARTS)
    put(store, PASSAGES, [{"passage_id": name, "text": text, "split": "train"} for name, text in texts.items()])
    put(store, INSTRUCTED_PAIRS, pairs, dataset="mtp/fret/checked")
    put(store, RANKINGS, *(ranked[at : at + size] for at in range(0, queries, size)), dataset=f"nearest/{MODEL}")


def made(root: Path) -> tuple[list[str], Counter[str]]:
    """Digests of all parts that both steps made, rejects among them, and how many rows were refused for each reason."""
    from pipeline_tasks.core.manifest import Ref
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.core.versions import Version
    from tests.stores import reasons

    store, found, refused = LocalStore(root), [], Counter[str]()
    for dataset in DATASETS.values():
        manifest = Version.open(store, Ref.parse(dataset)).manifest
        found += [part.sha256 for part in (*manifest.parts, *manifest.rejects)]
        refused += reasons(store, dataset) if manifest.rejects else Counter()
    return found, refused


class Disturbed:
    """Runs that are ended midway, and what was asked again although its answer was stored."""

    def __init__(self, root: Path, there: ScoringLLM) -> None:
        self.kills = self.bought_again = 0
        self._root, self._there = root, there
        self._said = root.parent / "said.txt"
        self._kept: Counter[str] = Counter()

    def killed(self, step: str, at: int) -> None:
        """SIGKILL at so many bills of the step."""
        before = len(self._there.billed)
        if run(step, self._root, self._there, STEPS[step], kill_at=before + at) != -signal.SIGKILL:
            raise RuntimeError(f"{step} was done before it could be killed")
        self.kills += 1
        self._look()

    def out_of_budget(self, step: str, usd: float) -> str:
        """What the step says where it may spend no more than this."""
        params = STEPS[step] | {"max_run_usd": f"{usd:.6f}"}
        code = run(step, self._root, self._there, params, says=self._said)
        said = self._said.read_text()
        if code != 2 or "max_run_usd" not in said or self._there.usd > usd:
            raise RuntimeError(f"{step} ended with {code} at {self._there.usd} of {usd} dollars: {said}")
        self._look()
        return " ".join(said.split()[-60:])

    def done(self, step: str) -> None:
        """Let it end by itself."""
        if code := run(step, self._root, self._there, STEPS[step]):
            raise RuntimeError(f"{step} ended with exit code {code}")
        self._look()

    def _look(self) -> None:
        asked = self._there.asked
        self.bought_again += sum(asked[key] > n for key, n in self._kept.items())
        self._kept = Counter({key: asked[key] for key in stored(self._root)})


def undisturbed(root: Path) -> tuple[dict[str, float], int]:
    """Figures of both steps where nothing fails, and how many requests they need."""
    figures: dict[str, float] = {}
    with ScoringLLM(SHARE, calm=True, delay_s=DELAY_S) as there:
        for step, params in STEPS.items():
            began, used, n = time.monotonic(), processor_s(), len(there.billed)
            if code := run(step, root, there, params):
                raise RuntimeError(f"{step} ended with exit code {code}")
            n = len(there.billed) - n
            figures[f"{step}_s"] = round(time.monotonic() - began, 1)
            figures[f"{step}_processor_ms"] = round(1e3 * (processor_s() - used) / n, 2)
        return figures, len(there.billed)


def go(queries: int, folder: Path) -> dict[str, Any]:
    """All figures over so many queries."""
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.synthesis.llm.client import CHECK

    calm, root = folder / "calm", folder / "store"
    for one in (calm, root):
        fill(one, queries)
    figures, needed = undisturbed(calm)
    score, grade = STEPS
    n_scores, began = 2 * DEPTH * queries, time.monotonic()
    with ScoringLLM(SHARE, delay_s=DELAY_S, retry_after_s=RETRY_AFTER_S) as there:
        runs = Disturbed(root, there)
        runs.killed(score, n_scores // 4)
        said = runs.out_of_budget(score, 2 * there.usd)
        runs.killed(score, n_scores // 4)
        runs.done(score)
        runs.killed(grade, queries // 2)
        runs.done(grade)
    (parts, refused), (wanted, _) = made(root), made(calm)
    met = sorted(there.met.items())
    tries = sum(there.asked.values())
    # Where a resumed run bought nothing and something was refused, a short prompt asks whether anything is accepted.
    checks = sum(key.startswith(CHECK) for key in there.billed)
    show("Faults met", ("kind", "tries"), [*met, ("all faults", sum(there.met.values())), ("all tries", tries)])
    show("Undisturbed", ("", ""), list(figures.items()))
    print(f"Out of budget: … {said}")
    return {
        "queries": queries,
        "passages": DEPTH,
        "requests_needed": needed,
        "answers_paid": sum(there.billed.values()) - checks,
        "checks_paid": checks,
        "paid_twice": sum(n > 1 for n in there.billed.values()) + runs.bought_again,
        "sent_again": there.sent - len(there.billed),
        "kills": runs.kills,
        "paid_and_not_stored": len(set(there.billed) - stored(root)) - checks,
        "seconds": round(time.monotonic() - began, 1),
        "rejects": dict(sorted(refused.items())),
        "rows_same_as_undisturbed": parts == wanted,
        "peak_mib": round(peak_mib()),
        "responses_mib": round(sum(entry.size_bytes for entry in LocalStore(root).entries("responses")) / (1 << 20)),
        **figures,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was met, and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few queries")
    parser.add_argument("--queries", type=int, default=1_000)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        finish(go(24 if options.quick else options.queries, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
