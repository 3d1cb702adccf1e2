"""``foundry export --onnx --int8``: a model's folder with graphs, whose worth is on the card and on the terminal."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipeline_tasks.cli.export import _SAMPLE, _sample
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.model.export import export
from tests import shapes
from tests.stores import put
from tests.training.made import put_model

TEXTS = ["ta wb wc", "tb", "tc wa wb"]


@pytest.fixture(scope="module")
def foundry(tmp_path_factory):
    root = tmp_path_factory.mktemp("graphs")
    store = LocalStore(root / "store")
    put(store, PASSAGES, [{"passage_id": text, "doc_id": "d", "text": text} for text in TEXTS])
    export(load(shapes.make("bert", root / "plain")), root / "m", card={"name": "Tiny"}, layout=Layout("cls", 32))
    put_model(store, root / "m", "model/22m/finetune")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipeline_tasks.cli.main", "export", *arguments]
        environment = os.environ | {"FOUNDRY_STORE": str(root / "store")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=root)

    return run


def test_a_model_comes_out_with_graphs_that_were_measured(foundry, tmp_path):
    ran = foundry("model/22m/finetune", str(tmp_path / "out"), "--onnx", "--int8")
    assert ran.returncode == 0, ran.stderr
    card = (tmp_path / "out" / "README.md").read_text()
    for graph in ("onnx/model.onnx", "onnx/model_int8.onnx"):
        assert (tmp_path / "out" / graph).is_file()
        told = next(line for line in ran.stdout.splitlines() if line.startswith(graph))
        assert "(3 passages)" in told
        assert f"| {told.replace(': ', ' | ', 1)} |" in card
    assert "onnx/model_int8.onnx: int8 weights; cosine to the exact vectors" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("passages", "--onnx"), "holds rows: --onnx and --int8 are for a model"),
        (("model/22m/finetune", "--int8", "--texts", "model/22m/finetune"), "name passages"),
    ],
)
def test_what_has_no_graph_is_told_and_nothing_is_left(foundry, tmp_path, arguments, why):
    name, *options = arguments
    ran = foundry(name, str(tmp_path / "out"), *options)
    assert ran.returncode == 2 and why in " ".join(ran.stderr.split())
    assert not (tmp_path / "out").exists()


def test_what_graphs_are_compared_on_is_from_all_over_the_passages_and_never_all_in_memory(tmp_path, monkeypatch):
    store, n = LocalStore(tmp_path), 3 * _SAMPLE
    rows = [{"passage_id": f"p{i:04}", "doc_id": "d", "text": f"text {i}"} for i in range(n)]
    version = Version.open(store, put(store, PASSAGES, [*rows, rows[0] | {"passage_id": "again"}]))
    monkeypatch.setattr(Version, "table", lambda *_: pytest.fail("all of it"))
    found = _sample(version)
    assert found == _sample(version) and len(set(found)) == len(found) > _SAMPLE - 2
    numbers = [int(text.split()[1]) for text in found]
    assert min(numbers) < n / 8 and max(numbers) > 7 * n / 8
