"""What a trained system is compared with."""

from __future__ import annotations

import pytest

from pipeline_tasks.evaluation.scores import from_rows

TRAINED = "model/22m/finetune@1"


@pytest.mark.parametrize(
    ("began", "untrained", "start"),
    [
        ("all-minilm-l6-v2", "all-minilm-l6-v2", "22m/untrained"),
        ("all-mpnet-base-v2", "all-mpnet-base-v2", "22m/untrained"),
        ("all-mpnet-base-v2", "all-minilm-l6-v2", "all-mpnet-base-v2"),
        ("bge-small-en-v1.5", "all-minilm-l6-v2", ""),
        ("", "", "22m/untrained"),
    ],
)
def test_the_start_is_what_the_model_began_as_and_not_what_its_size_begins_as(began, untrained, start):
    systems = {"22m/untrained": "", "all-mpnet-base-v2": "", "22m/finetune": TRAINED}
    rows = [
        {"system": name, "model_version": ref, "query_id": "q", "intent": "qa", "scores": [("ndcg@10", 0.5)]}
        for name, ref in systems.items()
    ]
    starts = {TRAINED: began} if began else {}
    assert from_rows("eval/mine@1", rows, starts=starts, untrained=untrained).start_of("22m/finetune") == start
