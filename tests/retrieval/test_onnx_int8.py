import numpy as np
import pytest

from pipeline_tasks.core import runtime
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.embed_passages import EncodeParams, embed_passages
from pipeline_tasks.retrieval.onnx_int8 import check, graph_name
from pipeline_tasks.retrieval.open_encoder import load_encoder
from tests.retrieval.tiny import decoder
from tests.stores import go, put, rows

MODEL = "all-minilm-l6-v2"
PASSAGES_OF = {
    "surge": "A storm surge is a rise of the sea that a hurricane pushes ashore, often some metres above the tide.",
    "shelter": "Go to a basement or to a small inner room on the lowest floor when a tornado warning comes.",
    "smoke": "Close the windows and run an air cleaner while wildfire smoke hangs over the town.",
}


@pytest.fixture(scope="module")
def int8(fetched):
    pytest.importorskip("onnxscript", reason="int8 graphs are exported with onnxscript")
    fetched(MODEL)
    return load_encoder(get(MODEL), settings().cache, precision="int8")


@pytest.fixture(scope="module")
def exact(fetched):
    fetched(MODEL)
    return load_encoder(get(MODEL), settings().cache)


def test_the_graph_is_made_once_and_its_vectors_are_near_the_exact_ones(int8, exact, fetched):
    graph = fetched(MODEL) / graph_name()
    made = graph.stat().st_mtime_ns
    again = load_encoder(get(MODEL), settings().cache, precision="int8")
    assert graph.stat().st_mtime_ns == made
    passages = list(PASSAGES_OF.values())
    assert 0.97 < check(again, exact, passages) < 1 - 1e-6
    np.testing.assert_array_equal(int8.encode(passages)[0], int8.encode(passages[:1])[0])


def test_vectors_that_are_turned_too_far_are_refused(int8, exact):
    class Turned:
        name = "turned"

        def encode_passages(self, texts):
            return np.roll(exact.encode_passages(texts), 1, axis=1)

    with pytest.raises(InputError, match=r"int8 vectors of turned have a cosine of only .*precision=float32"):
        check(Turned(), exact, list(PASSAGES_OF.values()))


def test_a_step_measures_before_it_builds(int8, tmp_path):
    store = LocalStore(tmp_path)
    put(store, PASSAGES, [{"passage_id": name, "doc_id": "d", "text": text} for name, text in PASSAGES_OF.items()])
    go(store, embed_passages, model=MODEL, precision="int8")
    assert len(rows(store, f"embeddings/{MODEL}")) == 3
    assert [key for key in store.keys("versions/embeddings")]


def test_another_runtime_quantises_anew_and_its_vectors_have_another_id(monkeypatch):
    name, params = graph_name(), {way: EncodeParams(model=MODEL, precision=way) for way in ("int8", "float32")}
    before = {way: given.identity() for way, given in params.items()}
    monkeypatch.setattr(runtime, "installed", lambda: {"onnxruntime": "99.0", "tokenizers": "1.0"})
    after = {way: given.identity() for way, given in params.items()}
    assert graph_name() != name
    assert after["int8"]["libraries"] == {"onnxruntime": "99.0"} != before["int8"]["libraries"]
    assert before["int8"]["quantisation"] in name
    assert "onnxruntime" not in str(after["float32"]) and "quantisation" not in after["float32"]


def test_a_model_that_takes_its_last_token_has_a_graph_too(tmp_path):
    """Its weights are so wide that products of 8 bits overflow on a processor without VNNI."""
    texts, folder = ["flood road", "smoke over the camp"], decoder(tmp_path / "m")
    exact, int8 = (load_encoder(folder, tmp_path, precision=way).encode(texts) for way in ("float32", "int8"))
    assert ((exact * int8).sum(axis=1) > 0.97).all()


def test_the_weights_of_a_large_model_lie_beside_its_graph_and_are_made_again_where_they_are_lost(
    tmp_path, monkeypatch
):
    """As of models above 1.5 GB; a limit of none makes any model one."""
    monkeypatch.setattr("torch.onnx._internal.exporter._onnx_program._LARGE_MODEL_THRESHOLD", 0)
    folder = decoder(tmp_path / "m")
    weights = folder / f"{graph_name()}.data"
    (folder / ".int8.partial").mkdir()
    (folder / ".int8.partial" / "exact.onnx.data").write_bytes(b"of a killed process")
    for _ in range(2):
        assert load_encoder(folder, tmp_path, precision="int8").encode(["flood road"]).shape[0] == 1
        weights.unlink()
    assert not list(folder.glob(".int8*"))
