"""Parts of pairs that were found: what is no pair any more changes its own part alone."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.files import found_pairs
from pipeline_tasks.synthesis.read_pairs import read_pairs
from tests.stores import go, put


def test_a_passage_that_is_withdrawn_changes_the_part_alone_that_had_its_pair(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(found_pairs, "_PART_ROWS", 4)
    store = LocalStore(tmp_path / "store")
    passages = [{"passage_id": f"p{n}", "doc_id": "d", "text": f"text {n}", "split": "train"} for n in range(10)]
    given = [{"query": f"what is {n}?", "passage_id": f"p{n}"} for n in range(10)]
    (tmp_path / "faq.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
    parts = []
    for there in (passages, passages[:2] + passages[3:]):
        put(store, PASSAGES, there)
        made = Version.open(store, go(store, read_pairs, source=str(tmp_path / "faq.jsonl")).ref)
        parts.append(made.manifest.parts)
    before, after = parts
    assert [part.rows for part in before] == [4, 4, 2] and [part.rows for part in after] == [3, 4, 2]
    assert before[1:] == after[1:]
