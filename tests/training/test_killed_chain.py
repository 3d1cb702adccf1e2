"""A chain of stages that is killed between one and the next ends in the same bytes."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL

from pipeline_tasks.core.manifest import Part, Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.datasets import PAIRS, SCORED_TRIPLETS, TRIPLETS
from tests.forked import forked
from tests.shapes import TOPICS
from tests.stores import put
from tests.training.conftest import passage, query

SHORT = {"size": "22m", "epochs": 2, "batch_size": 24, "max_query_length": 16, "max_passage_length": 32}
SHORT |= {"device": "cpu", "evals_per_epoch": 1, "checkpoint_every_steps": 1}
BEFORE_EXPORT = "pipeline_tasks.training.model.export", "export"
BEFORE_MANIFEST = "pipeline_tasks.core.execution.runner", "_publish"
DEATHS = ((BEFORE_EXPORT, 1), (BEFORE_MANIFEST, 1), (BEFORE_EXPORT, 2), (BEFORE_MANIFEST, 1), (BEFORE_MANIFEST, 3))
"""Twice in pre-training and twice in the first fine-tuning, of which the next try exports anew; in distillation."""


def row(topic: int, split: str) -> dict:
    negatives = [passage((topic + n) % len(TOPICS)) for n in (1, 2)]
    return {
        "query_id": f"q{topic}-{split}",
        "intent": "qa",
        "query": query(topic, split == "dev"),
        "split": split,
        "passage_id": f"p{topic}",
        "passage": passage(topic),
        "positive_id": f"p{topic}",
        "positive": passage(topic, 1),
        "negative_ids": ["a", "b"],
        "negatives": negatives,
        "teacher_positive_score": 0.9,
        "teacher_negative_scores": [0.2, 0.1],
    }


def begun(folder: Path) -> LocalStore:
    store, rows = LocalStore(folder), [row(topic, split) for split in ("train", "dev") for topic in range(len(TOPICS))]
    for schema, dataset in (
        (PAIRS, "mtp"),
        (TRIPLETS, "mtt/0.5"),
        (TRIPLETS, "mtt/0.65"),
        (SCORED_TRIPLETS, "mtt/0.95-kd"),
    ):
        names = schema.arrow.names
        put(store, schema, [{name: one[name] for name in names if name in one} for one in rows], dataset=dataset)
    return store


def chain_of(store: LocalStore, ref: Ref) -> list[tuple[str, list[Part]]]:
    """Every version of the chain with its parts, the last one first."""
    manifest = load_manifest(store, ref)
    before = manifest.inputs.get("init")
    return [(str(ref), manifest.parts), *(chain_of(store, Ref.parse(before[0])) if before else ())]


def test_killed_after_a_stage_s_last_step_and_before_its_manifest_the_chain_ends_in_the_same_bytes(
    tiny_bert, tmp_path, monkeypatch
):
    from tests.training import killable

    monkeypatch.setenv("FOUNDRY_THREADS", "1")
    whole, killed = (begun(tmp_path / name) for name in ("whole", "killed"))
    undisturbed = killable.stages(whole, tiny_bert, SHORT)
    for fatal in DEATHS:
        process = forked().Process(target=killable.stages, args=(killed, tiny_bert, SHORT, *fatal))
        process.start()
        process.join()
        assert process.exitcode == -SIGKILL
    resumed = killable.stages(killed, tiny_bert, SHORT)
    assert resumed.counters["resumed_at_step"] == resumed.counters["optimiser_steps"] == 2
    assert chain_of(killed, resumed.ref) == chain_of(whole, undisturbed.ref)
