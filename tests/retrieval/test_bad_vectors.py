from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.embed_pairs import embed_pairs
from pipeline_tasks.retrieval.embed_passages import embed_passages
from pipeline_tasks.retrieval.open_encoder import load_encoder
from tests.retrieval.tiny import decoder
from tests.stores import go, put

MODEL = "all-minilm-l6-v2"


def spoilt(folder: Path, value: float) -> Path:
    """The folder with every weight of its last layer norm set to ``value``."""
    weights = load_file(folder / "model.safetensors")
    weights["norm.weight"] = torch.full_like(weights["norm.weight"], value)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_a_vector_that_is_none_is_refused_and_names_its_text(tmp_path, value):
    encoder = load_encoder(spoilt(decoder(tmp_path / "m"), value), tmp_path)
    with pytest.raises(InputError, match=r"2 vectors with NaN or of length 0, the first for 'fire'"):
        encoder.encode(["flood", "fire"])


@pytest.mark.parametrize("blank", ["", "  \n", "\u00a0"])
def test_a_blank_text_is_refused(tmp_path, blank):
    encoder = load_encoder(decoder(tmp_path / "m"), tmp_path)
    for encode in (encoder.encode, encoder.encode_passages, encoder.encode_queries):
        with pytest.raises(InputError, match="text 2 of 2 is blank"):
            encode(["flood", blank])


def test_a_model_of_another_width_than_the_registry_states_is_refused(fetched):
    fetched(MODEL)
    with pytest.raises(InputError, match="gives 384 numbers, the registry states 512"):
        load_encoder(get(MODEL).model_copy(update={"dim": 512}), settings().cache)


def test_a_model_that_only_an_endpoint_has_says_so(tmp_path):
    with pytest.raises(InputError, match="nv-embed-v2 cannot be run here.*FOUNDRY_EMBEDDINGS_BASE_URL"):
        load_encoder(get("nv-embed-v2"), tmp_path)


def test_nothing_is_built_on_a_blank_passage_or_query(tmp_path, fetched):
    fetched(MODEL)
    store = LocalStore(tmp_path)
    put(store, PASSAGES, [{"passage_id": "p1", "text": "A flood."}, {"passage_id": "p2", "text": " "}])
    with pytest.raises(InputError, match="passage_id p2: its text is blank"):
        go(store, embed_passages, model=MODEL)
    put(store, PAIRS, [{"query_id": "q1", "query": None, "positive": "A flood.", "intent": "qa"}], dataset="mtp")
    with pytest.raises(InputError, match="query_id q1: its query is blank"):
        go(store, embed_pairs, model=MODEL)
    assert not list(store.keys("memo")) and not any("embeddings" in key for key in store.keys("versions"))


def test_vectors_of_the_wrong_shape_are_refused(tmp_path):
    encoder = load_encoder(decoder(tmp_path / "m"), tmp_path)
    encoder._vectors = lambda texts, prefixes, done: np.ones((len(texts), 7), np.float32)
    with pytest.raises(InputError, match=r"shape \(1, 7\) for 1 texts of width 32"):
        encoder.encode(["flood"])
