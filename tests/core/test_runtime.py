import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from pipeline_tasks.core.store import LocalStore
from tests.core import toy_steps as toy

ROOT = Path(__file__).parents[2]
TOLD = "import json; {first}from pipeline_tasks.core.runtime import runtime; print(json.dumps([runtime(), {last}]))"


def told(first: str = "", last: str = "None", **variables: str) -> list:
    command = [sys.executable, "-c", TOLD.format(first=first, last=last)]
    said = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=True)
    return json.loads(said.stdout)


def test_libraries_are_told_without_being_imported():
    facts, loaded = told(last="[name for name in __import__('sys').modules]", FOUNDRY_THREADS="3")
    assert facts["packages"]["torch"] == version("torch") and facts["packages"]["faiss"] == version("faiss-cpu")
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["threads"] == 3 and facts["processor"]
    assert facts["device"] is None
    assert not {"torch", "transformers", "faiss", "onnxruntime", "numba", "duckdb"} & set(loaded)


def test_the_device_is_told_where_torch_is_loaded():
    torch = pytest.importorskip("torch")
    opened = "torch.zeros(1, device='cuda'); " if torch.cuda.is_available() else ""
    name = torch.cuda.get_device_name(0) if opened else "cpu"
    facts, _ = told(first=f"import torch; {opened}")
    assert facts["device"].startswith(name)


def test_every_event_of_a_run_says_what_it_ran_on(tmp_path):
    store = LocalStore(tmp_path)
    toy.make(store, toy.toy_list, rows={"a": 1})
    events = [json.loads(data) for _, data in store.read_all(store.keys("lineage/events"))]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    for event in events:
        assert event["run"]["facets"]["foundry"]["runtime"]["packages"]["pyarrow"] == version("pyarrow")
