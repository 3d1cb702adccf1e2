"""What of the worker's environment a step gets: its own secrets, and nothing of Airflow's."""

from __future__ import annotations

import json
import sys

import pytest
from foundry_airflow.calls import Call, call_of
from foundry_airflow.containers import container_of
from foundry_airflow.pods import pod
from foundry_airflow.process import ProcessBackend

from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Resources

VALUES = {
    "OPENAI_API_KEY": "sk-of-the-llm",
    "FOUNDRY_EMBEDDINGS_API_KEY": "sk-of-embeddings",
    "BRAVE_API_KEY": "brave-key",
    "AWS_ACCESS_KEY_ID": "of-the-store",
    "AWS_SECRET_ACCESS_KEY": "also-of-the-store",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://airflow:secret@postgres/airflow",
    "AIRFLOW__CORE__FERNET_KEY": "fernet",
    "AIRFLOW_CONN_HOME": "http://user:secret@host",
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": "http://127.0.0.1",
    "HF_TOKEN": "of-the-hub",
    "FOUNDRY_SOMETHING_TOKEN": "of nobody",
    "UNRELATED": "x",
}
KEYS = {
    (): set(),
    ("llm",): {"OPENAI_API_KEY"},
    ("search",): {"BRAVE_API_KEY"},
    ("embeddings",): {"FOUNDRY_EMBEDDINGS_API_KEY"},
    ("hub",): {"HF_TOKEN"},
}
STORE_KEYS = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


@pytest.fixture(params=["folder", "bucket"])
def store(request, store_folder, monkeypatch) -> set[str]:
    """The keys that the store itself needs, with a worker that has all keys."""
    for name, value in (VALUES | {"FOUNDRY_EMBEDDINGS_BASE_URL": "http://127.0.0.1:1/v1"}).items():
        monkeypatch.setenv(name, value)
    if request.param == "bucket":
        monkeypatch.setenv("FOUNDRY_STORE", "s3://bucket/prefix")
    settings.cache_clear()
    return STORE_KEYS if request.param == "bucket" else set()


def call(*secrets: str) -> Call:
    return Call("count", "76a59d9ae48d0d8e", (), Resources(secrets=secrets))


def seen_by_a_process(call: Call, monkeypatch) -> dict[str, str]:
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    monkeypatch.setattr("foundry_airflow.process.COMMAND", (sys.executable, "-c", code))
    return json.loads(ProcessBackend().run(call, print).last_line)


@pytest.mark.parametrize("declared", KEYS)
def test_a_process_gets_the_keys_that_its_step_declares_and_nothing_of_airflow(store, declared, monkeypatch):
    seen = seen_by_a_process(call(*declared), monkeypatch)
    assert seen.keys() & VALUES.keys() == KEYS[declared] | store
    assert {"PATH", "HOME", "FOUNDRY_STORE", "PYTHONPATH"} <= seen.keys()


@pytest.mark.parametrize("declared", KEYS)
def test_a_container_gets_the_keys_that_its_step_declares(store, declared):
    wanted = container_of(call(*declared))
    there = {name for name, value in wanted.secrets.items() if value}
    assert there == KEYS[declared] | store
    assert not wanted.environment.keys() & VALUES.keys()


@pytest.mark.parametrize("declared", KEYS)
def test_a_pod_names_the_secrets_of_its_step_alone(store, declared):
    (container,) = pod(container_of(call(*declared)), {})["spec"]["containers"]
    named = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one}
    assert named.keys() >= KEYS[declared] | store
    assert not named.keys() & (VALUES.keys() - KEYS[declared] - store)
    assert all(ref["key"] == name and ref["name"] == "foundry-secrets" for name, ref in named.items())


def test_an_embeddings_endpoint_without_a_key_of_its_own_is_asked_with_the_llms(store, monkeypatch):
    monkeypatch.delenv("FOUNDRY_EMBEDDINGS_BASE_URL")
    settings.cache_clear()
    seen = seen_by_a_process(call("embeddings"), monkeypatch)
    assert seen.keys() & VALUES.keys() == {"OPENAI_API_KEY"} | store


def test_a_process_keeps_what_a_machine_is_set_up_with(store, monkeypatch):
    machine = {
        "LANG": "C.UTF-8", "TMPDIR": "/tmp", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0", "TZ": "UTC",
        "NVIDIA_VISIBLE_DEVICES": "all", "https_proxy": "http://proxy:1", "NO_PROXY": "127.0.0.1",
        "SSL_CERT_FILE": "/ca.pem", "PYTHONDONTWRITEBYTECODE": "1", "TOKENIZERS_PARALLELISM": "false",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:8333", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "HF_HUB_OFFLINE": "1", "TESSDATA_PREFIX": "/tess",
    }  # fmt: skip
    for name, value in machine.items():
        monkeypatch.setenv(name, value)
    seen = seen_by_a_process(call(), monkeypatch)
    assert {name: seen.get(name) for name in machine} == machine


@pytest.mark.parametrize(
    ("step", "params", "given"),
    [
        ("search_web", {"provider": "brave"}, ("search",)),
        ("search_web", {"provider": "searxng"}, ()),
        ("embed_passages", {"model": "all-minilm-l6-v2"}, ()),
        ("embed_passages", {"model": "e5-mistral-7b-instruct"}, ("embeddings",)),
        ("write_needs", {}, ("llm",)),
        ("extract_text", {}, ()),
    ],
)
def test_a_run_that_asks_nobody_gets_no_key(step, params, given, monkeypatch):
    monkeypatch.setenv("FOUNDRY_SERVED_MODELS", "e5-mistral-7b-instruct")
    settings.cache_clear()
    found = get_step(step)
    assert call_of(Job(found, found.parse(params), {}), [], "").resources.secrets == given
    settings.cache_clear()
