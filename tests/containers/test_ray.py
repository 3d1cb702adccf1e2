"""The Ray cluster of docker-compose.yml: nodes that share a bucket and nothing else make the bytes of one process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.retrieval.embed_passages import embed_passages
from pipeline_tasks.training.pretrain import pretrain
from tests.containers.conftest import docker, weights_for
from tests.containers.stack import PATIENCE_S, Stack
from tests.stores import put

MODEL = "all-minilm-l6-v2"
NODES = ("ray-head", "ray-worker")


@pytest.fixture
def cluster(stack: Stack) -> Iterator[Stack]:
    """The stack with a head and two workers beside it, which go again."""
    weights_for(stack, MODEL)
    with_ray = ("--profile", "ray")
    try:
        stack(*with_ray, "up", "--detach", "--wait", "--wait-timeout", str(int(PATIENCE_S)), "--no-build", *NODES)
        yield stack
    except AssertionError as error:
        error.add_note(stack(*with_ray, "logs", "--no-color", "--tail", "30", *NODES))
        raise
    finally:
        stack(*with_ray, "rm", "--stop", "--force", "--volumes", *NODES)


def passages(folder: Path) -> LocalStore:
    """A store with six parts of passages."""
    store = LocalStore(folder)
    parts = ([{"passage_id": f"p{n}-{m}", "text": f"flood {n} of river {m}"} for m in range(4)] for n in range(6))
    put(store, PASSAGES, *parts)
    return store


def test_a_cluster_without_a_common_disk_makes_the_bytes_of_one_process(cluster, tmp_path):
    here = passages(tmp_path / "here")
    cluster.sync(tmp_path / "copies", str(here.root), "s3://foundry/store")
    command = ("foundry", "run", "embed_passages", "--set", f"model={MODEL}")
    made = cluster("--profile", "tools", "run", "--rm", "--no-deps", "--env", "FOUNDRY_ENGINE=ray", *command)
    run_job(here, job := plan(here, embed_passages, {"model": MODEL}))
    key = f"versions/embeddings/{MODEL}/{job.ref.version}.json"
    assert str(Ref.parse(made.split()[-1])) == str(job.ref)
    assert cluster.manifests()[key] == here.read(key)
    assert engine_that_made(cluster, job.ref) == "ray"


def test_two_nodes_train_one_model_to_the_bytes_of_two_processes(cluster, tmp_path, monkeypatch):
    """Their processes find each other over the network of the containers, and read the bucket each."""
    here = LocalStore(tmp_path / "here")
    rows = [
        {"query_id": f"q{n}", "intent": "qa", "split": "dev" if n > 5 else "train", "passage_id": f"p{n}"}
        | {"query": f"how high was flood {n}", "passage": f"flood {n} of river {n}", "positive": f"{n} metres"}
        for n in range(8)
    ]
    put(here, PAIRS, rows, dataset="mtp")
    cluster.sync(tmp_path / "copies", str(here.root), "s3://foundry/store")
    chosen = {"size": "22m", "device": "cpu", "epochs": 1, "batch_size": 4}
    chosen |= {"max_query_length": 16, "max_passage_length": 16, "sharding": "zero1"}
    told = {"ENGINE": "ray", "THREADS": "1", "HANDED_RESOURCES": json.dumps({"pretrain": {"nodes": 2}})}
    environment = [word for name, value in told.items() for word in ("--env", f"FOUNDRY_{name}={value}")]
    command = ["foundry", "run", "pretrain", *(w for n, v in chosen.items() for w in ("--set", f"{n}={v}"))]
    made = cluster("--profile", "tools", "run", "--rm", "--no-deps", *environment, *command)
    monkeypatch.setenv("FOUNDRY_THREADS", "1")
    monkeypatch.setenv("FOUNDRY_DEVICES", "cpu,cpu")
    settings.cache_clear()
    run_job(here, job := plan(here, pretrain, chosen))
    settings.cache_clear()
    key = f"versions/model/22m/pretrain/{job.ref.version}.json"
    assert str(Ref.parse(made.split()[-1])) == str(job.ref)
    assert cluster.manifests()[key] == here.read(key)
    assert engine_that_made(cluster, job.ref) == "ray"


def test_nodes_share_weights_that_they_cannot_change_and_nothing_else(cluster):
    names = cluster("--profile", "ray", "ps", "--quiet", *NODES).split()
    mounts = [{m["Destination"]: m for m in json.loads(docker("inspect", name))[0]["Mounts"]} for name in names]
    assert len(names) == 3
    assert len({found["/var/cache/foundry"]["Name"] for found in mounts}) == 3
    for found in mounts:
        assert set(found) == {"/var/cache/foundry", "/weights", "/etc/foundry/s3-ca.pem"}
        assert [found[name]["RW"] for name in ("/weights", "/etc/foundry/s3-ca.pem")] == [False, False]


def engine_that_made(stack: Stack, ref: Ref) -> str:
    """What the event at the end of the run says; other tests may have made other versions of the dataset."""
    ends = [one for one in stack.bucket.objects.filter(Prefix="store/lineage/events/") if "complete" in one.key]
    events = [json.loads(one.get()["Body"].read()) for one in ends]
    (made,) = [event for event in events if ref.version in json.dumps(event["outputs"])]
    return made["run"]["facets"]["foundry"]["engine"]
