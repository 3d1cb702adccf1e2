"""Two steps that ask an LLM, against a stand-in that fails at a fifth of its requests, killed twice on their way.

    python benchmarks/synthesis_faults.py [--quick]

Every passage is asked for a need, and every need for a pair, by the command line as a user calls it. The stand-in
answers on loopback after a set time, so that waiting and not this machine's speed decides. The first run of each step
is ended by SIGKILL midway; the next one goes on.

The ideal is what the tries hold a place for (answers, also cut ones, and hangs until they time out), by the places
allowed, and the windows in which the stand-in takes nothing. Seconds are from a run's first request to its last answer:
starts of the interpreter are not in it.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.faulty_llm import FaultyLLM
from benchmarks.killed_steps import run, stored
from benchmarks.measure import finish, show

SHARE, DRAWN = 0.2, ("http_400", "http_500", "hang", "cut", "schema", "http_429")
BROKEN = SHARE / (len(DRAWN) + 1)
"""Share of answers that are half a JSON object: as often as any other kind."""
CONCURRENCY, TIMEOUT_S, RETRY_AFTER_S = 16, 4.0, 0.5
STEPS = {"write_needs": "needs", "write_pairs": "mtp/dm"}
_NUMBER = re.compile(r"Number (\d+) siren")
PASSAGE = (
    "Number {} siren at the river dam sounds for three minutes before the gates open, so anglers must leave at once."
)
NEED = "Somebody who fishes below the river dam wants to know how long siren {} warns them."
PAIR = {
    "query": "how long does warning {} last at the dam before water is let out",
    "positive": "Before the gates of the river dam open, siren {} sounds for three minutes, and anglers must leave.",
}


class WritingLLM(FaultyLLM):
    """A stand-in that follows the form asked for; some answers, drawn by their prompt, are half of a JSON object.

    Attributes:
        broken: answers that were half an object, also those that another fault kept back.
        spans: first and last moment of each run, on the monotonic clock.
    """

    def __init__(self, delay_s: float) -> None:
        super().__init__(BROKEN * len(DRAWN), DRAWN, retry_after_s=RETRY_AFTER_S, delay_s=delay_s)
        self.broken, self.spans = 0, [[0.0, 0.0]]

    def begin(self, key: str, prompt: str) -> tuple[str, float]:
        """As for any stand-in; a run begins with its first request."""
        self.spans[-1][0] = self.spans[-1][0] or time.monotonic()
        return super().begin(key, prompt)

    def end(self) -> None:
        """As for any stand-in."""
        super().end()
        self.spans[-1][1] = time.monotonic()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:  # type: ignore[override]
        """The last message, and the fields that the request's form names."""
        from pipeline_tasks.core.ids import unit_hash

        prompt, answer = FaultyLLM.answer(path, body)
        said = json.dumps(body["messages"])
        number = found[1] if (found := _NUMBER.search(said)) else "0"
        fields = body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})
        texts = {"need": NEED} | PAIR
        text = json.dumps({name: texts[name].format(number) for name in fields})
        if unit_hash("broken", said) < BROKEN:
            text, self.broken = text[: len(text) // 2], self.broken + 1
        answer["choices"][0]["message"]["content"] = text
        return prompt, answer

    def ideal_s(self, kills: int) -> float:
        """Seconds that the same tries take where no place is ever empty; tries that a kill cut off do not count."""
        answers = sum(self.asked.values()) - sum(self.met.values()) + self.met["cut"] - kills * CONCURRENCY
        held = answers * self.delay_s + self.met["hang"] * TIMEOUT_S
        return held / CONCURRENCY + self.windows * self.retry_after_s

    @property
    def wall_s(self) -> float:
        """Seconds of all runs."""
        return sum(last - first for first, last in self.spans)


def run_step(step: str, root: Path, there: WritingLLM, *, kill_at: int = 0) -> bool:
    """Run a step, and end it at so many bills where told to; whether it ended by itself."""
    params = {"llm": "m", "api": "chat", "concurrency": CONCURRENCY, "timeout_s": TIMEOUT_S}
    params |= {"intents": '["qa"]'} if step == "write_needs" else {}
    there.spans.append([0.0, 0.0])
    code = run(step, root, there, params, kill_at=kill_at)
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{step} ended with exit code {code}")
    return code == 0


def go(passages: int, delay_s: float, root: Path) -> dict[str, Any]:
    """Figures of both steps over so many passages."""
    from pipeline_tasks.core.store import LocalStore
    from pipeline_tasks.datasets import PASSAGES
    from tests.stores import put, rejects, rows

    store = LocalStore(root)
    each = [
        {"passage_id": f"p{i:05}", "doc_id": "d", "text": PASSAGE.format(i), "split": "train"} for i in range(passages)
    ]
    put(store, PASSAGES, each)
    bought_again, kills = 0, 0
    with WritingLLM(delay_s) as there:
        for step in STEPS:
            if run_step(step, root, there, kill_at=len(there.billed) + passages // 2):
                raise RuntimeError(f"{step} was done before it could be killed")
            kills += 1
            kept = stored(root)
            asked = Counter({key: there.asked[key] for key in kept})
            run_step(step, root, there)
            bought_again += sum(there.asked[key] > asked[key] for key in kept)
        # What a killed run was about to store is asked for again under its key; an answer under a known key is not
        # billed again, and one that never reached the store at all would be missing here.
        unstored = len(set(there.billed) - stored(root))
        billed_twice = sum(n > 1 for n in there.billed.values())
        needs, pairs = rows(store, "needs"), rows(store, "mtp/dm")
        refused = {name: rejects(store, name) for name in STEPS.values()}
        of_need = {need["need_id"]: need["passage_id"] for need in needs}
        ends = [pair["passage_id"] for pair in pairs]
        ends += [*refused["needs"], *(of_need[key] for key in refused["mtp/dm"])]
        reasons = Counter(reject["reason"] for found in refused.values() for reject in found.values())
        met = sorted([*there.met.items(), ("broken_json", there.broken)])
        tries = sum(there.asked.values())
        show("Faults met", ("kind", "tries"), [*met, ("all faults", sum(n for _, n in met)), ("all tries", tries)])
        show("Passages", ("end", "number"), [("pair", len(pairs)), *sorted(reasons.items())])
        ideal = there.ideal_s(kills)
        show("Seconds", ("", "s"), [("wall", there.wall_s), ("ideal", ideal)])
        return {
            "passages": passages,
            "accounted": len(set(ends)) if len(ends) == len(set(ends)) else -1,
            "paid_twice": billed_twice + bought_again,
            "wall_ratio_to_ideal": round(there.wall_s / ideal, 3),
            "paid_and_not_stored": unstored,
            "pairs": len(pairs),
            "kills": kills,
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was met, how the passages ended, and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few passages")
    quick = parser.parse_args(argv).quick
    with tempfile.TemporaryDirectory() as folder:
        finish(go(60 if quick else 2_000, 0.1 if quick else 0.25, Path(folder) / "store"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
