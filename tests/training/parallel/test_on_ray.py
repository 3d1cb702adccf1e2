"""A stage that trains on nodes of a real Ray cluster gives the model that it gives here, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.training.pretrain import pretrain
from tests.core.ray_cluster import on_ray, one_node, several_nodes, use, use_this_machine
from tests.core.toy_steps import check_whole
from tests.stores import go, put
from tests.training.conftest import passage, query

SMALL = {"size": "22m", "batch_size": 4, "max_query_length": 32, "max_passage_length": 32, "device": "cpu"}


def trained(folder: Path, backbone: Path, **changed: str) -> dict[str, bytes]:
    store = LocalStore(folder)
    rows = [
        {"query_id": f"q{topic}", "intent": "qa", "split": "dev" if topic > 6 else "train", "passage_id": f"p{topic}"}
        | {"query": query(topic), "passage": passage(topic), "positive": passage(topic, 1)}
        for topic in range(9)
    ]
    put(store, PAIRS, rows, dataset="mtp")
    go(store, pretrain, backbone=str(backbone), epochs=1, **SMALL, **changed)
    return check_whole(store)


def engines(folder: Path) -> set[str]:
    """Who computed, by the events at the ends of runs."""
    events = [json.loads(path.read_bytes()) for path in (folder / "lineage/events").glob("*-complete.json")]
    return {event["run"]["facets"]["foundry"]["engine"] for event in events}


@on_ray
@pytest.mark.parametrize("devices", ["cpu", "cpu,cpu"])
def test_the_same_model_by_one_process_and_by_two(tiny_bert, tmp_path, monkeypatch, devices):
    monkeypatch.setenv("FOUNDRY_DEVICES", devices)
    with one_node() as address:
        use(address, monkeypatch)
        there = trained(tmp_path / "there", tiny_bert)
    assert engines(tmp_path / "there") == {"ray"}
    use_this_machine(monkeypatch)
    assert there == trained(tmp_path / "here", tiny_bert)
    settings.cache_clear()


@on_ray
def test_the_same_model_by_two_nodes_as_by_two_processes_of_one(tiny_bert, tmp_path, monkeypatch):
    """Each has half of the optimiser's moments, and as many threads as half of the other way's."""
    resources = tmp_path / "resources.toml"
    resources.write_text("[pretrain]\nnodes = 2\n")
    monkeypatch.setenv("FOUNDRY_THREADS", "1")
    monkeypatch.setenv("FOUNDRY_DEVICES", "cpu")
    monkeypatch.setenv("FOUNDRY_RESOURCES", str(resources))
    with several_nodes(2, monkeypatch):
        there = trained(tmp_path / "there", tiny_bert, sharding="zero1")
    assert engines(tmp_path / "there") == {"ray"}
    monkeypatch.delenv("FOUNDRY_RESOURCES")
    monkeypatch.setenv("FOUNDRY_DEVICES", "cpu,cpu")
    use_this_machine(monkeypatch)
    assert there == trained(tmp_path / "here", tiny_bert, sharding="zero1")
    settings.cache_clear()
