import hashlib
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import load_tokenizer
from pipeline_tasks.retrieval.batches import batches_by_length
from pipeline_tasks.retrieval.open_encoder import load_encoder, open_encoder

TEXTS = [
    "Move to higher ground when the river rises.",
    "Ash from the volcano closed the airport for nine days while crews swept the runway.",
    "Shelter in a basement.",
    "?",
    "Cholera spread through the camp because the wells were shallow. " * 60,
    "Shelter in a basement.",
]
QUERIES = ["how do I prepare for a hurricane", "what causes earthquakes", "wildfire smoke and asthma"]
PASSAGES = [
    "Before a hurricane, store water and learn your evacuation route.",
    "Earthquakes are caused by the sudden slip of rock along a fault.",
    "Smoke from wildfires can worsen asthma; stay indoors.",
]
DIGEST = """
import hashlib, json, sys
from pathlib import Path
from pipeline_tasks.retrieval.open_encoder import load_encoder
texts = json.loads(sys.stdin.read())
print(hashlib.sha256(load_encoder(Path(sys.argv[1]), Path(), 2).encode(texts).tobytes()).hexdigest())
"""


@pytest.fixture(scope="module")
def minilm(fetched):
    fetched("all-minilm-l6-v2")
    return load_encoder(get("all-minilm-l6-v2"), settings().cache)


@pytest.fixture(scope="module")
def bge(fetched):
    fetched("bge-small-en-v1.5")
    return load_encoder(get("bge-small-en-v1.5"), settings().cache)


@pytest.mark.parametrize("name", ["all-minilm-l6-v2", "all-mpnet-base-v2"])
def test_agrees_with_sentence_transformers(name, fetched):
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(fetched(name)), device="cpu")
    wanted = theirs.encode(TEXTS, normalize_embeddings=True)
    ours = load_encoder(get(name), settings().cache).encode(TEXTS)
    assert (ours * wanted).sum(axis=1).min() > 0.999999


@pytest.mark.parametrize("name", ["minilm", "bge"])
def test_unit_vectors_in_the_order_of_the_texts_and_equal_ones_for_equal_texts(name, request):
    encoder = request.getfixturevalue(name)
    vectors = encoder.encode(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((6, 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(vectors[2], vectors[5])
    np.testing.assert_array_equal(encoder.encode(TEXTS[::-1]), vectors[::-1])


def test_a_vector_hardly_depends_on_the_other_texts(minilm, bge):
    np.testing.assert_allclose(minilm.encode(TEXTS[:1])[0], minilm.encode(TEXTS)[0], atol=1e-5)
    np.testing.assert_array_equal(bge.encode(TEXTS[:1])[0], bge.encode(TEXTS)[0])


def test_another_process_gives_the_same_bytes(minilm, fetched):
    import json

    command = [sys.executable, "-c", DIGEST, str(fetched("all-minilm-l6-v2"))]
    ran = subprocess.run(command, input=json.dumps(TEXTS), capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-1] == hashlib.sha256(minilm.encode(TEXTS).tobytes()).hexdigest()


@pytest.mark.parametrize("name", ["minilm", "bge"])
def test_each_query_finds_its_passage(name, request):
    encoder = request.getfixturevalue(name)
    scores = encoder.encode_queries(QUERIES, ["qa"] * 3) @ encoder.encode_passages(PASSAGES).T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2]
    assert np.diag(scores).min() > np.partition(scores, 1, axis=1)[:, 1].max()


def test_queries_get_the_prefix_of_the_model(bge):
    prefix = get("bge-small-en-v1.5").query_prefix
    np.testing.assert_array_equal(bge.encode_queries(QUERIES), bge.encode([prefix + query for query in QUERIES]))
    np.testing.assert_array_equal(bge.encode_passages(PASSAGES), bge.encode(PASSAGES))


def test_progress_adds_up_to_the_texts(minilm):
    seen = []
    minilm.encode(TEXTS, progress=seen.append)
    assert sum(seen) == len(TEXTS)


def test_no_text_is_no_row(minilm):
    assert minilm.encode([]).shape == (0, 384)


def test_intents_must_match_the_queries(minilm):
    with pytest.raises(InputError, match="3 queries with 1 intents"):
        minilm.encode_queries(QUERIES, ["qa"])


def test_a_model_saved_by_sentence_transformers_gives_its_vectors(minilm, fetched, tmp_path):
    from sentence_transformers import SentenceTransformer

    prompts = {"query": "query: ", "qa": "answer: "}
    theirs = SentenceTransformer(str(fetched("all-minilm-l6-v2")), device="cpu", prompts=prompts)
    theirs.save(str(tmp_path / "saved"))
    ours = load_encoder(tmp_path / "saved", tmp_path)
    np.testing.assert_allclose(ours.encode(TEXTS), minilm.encode(TEXTS), atol=1e-5)
    wanted = theirs.encode(QUERIES, prompt_name="qa", normalize_embeddings=True)
    np.testing.assert_allclose(ours.encode_queries(QUERIES, ["qa"] * 3), wanted, atol=1e-5)


def test_the_tokenizer_neither_cuts_nor_pads(fetched):
    tokenizer = load_tokenizer(fetched("all-minilm-l6-v2"))
    assert len(tokenizer.encode("flood " * 600, add_special_tokens=False).ids) == 600
    assert len(tokenizer.encode("flood").ids) == 3


def test_the_last_encoder_opened_stays_loaded(fetched):
    fetched("all-minilm-l6-v2")
    assert open_encoder("all-minilm-l6-v2") is open_encoder("all-minilm-l6-v2")


def test_a_model_that_was_not_fetched_names_the_command(tmp_path):
    with pytest.raises(InputError, match="foundry models fetch all-minilm-l6-v2"):
        load_encoder(get("all-minilm-l6-v2"), tmp_path)


@pytest.mark.parametrize("budget", [1, 100, 4096])
def test_batches_cover_every_text_once_within_the_budget(budget):
    lengths = np.random.default_rng(budget).integers(1, 300, 500).tolist()
    batches = list(batches_by_length(lengths, budget))
    assert sorted(chain.from_iterable(batches)) == list(range(500))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
