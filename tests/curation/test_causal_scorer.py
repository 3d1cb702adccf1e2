"""Likelihoods of many texts at once are those of one text at a time, and those of plain transformers."""

from __future__ import annotations

import json
import shutil
import tracemalloc

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.curation.causal_scorer import CausalScorer
from pipeline_tasks.encoders.trunk import load_model, load_tokenizer
from tests.curation.small_scorer import make
from tests.shapes import FILLERS, TOPICS

BEGINNING = "ta wa tb wb none low high full "
TEXTS = [" ".join([*FILLERS[: 1 + 3 * n], TOPICS[n]]) for n in (0, 3, 1, 2, 0)]
ENDS = [" ".join(TOPICS[n : n + 1 + n % 3]) for n in (4, 5, 6, 7, 8)]
LABELS = (" none", " low", " high")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp("scorer"))


@pytest.fixture(scope="module")
def scorer(folder) -> CausalScorer:
    return CausalScorer(folder, batch_size=2)


def test_a_decoder_that_looks_ahead_is_refused(folder, tmp_path):
    ahead = shutil.copytree(folder, tmp_path / "ahead")
    config = json.loads((ahead / "config.json").read_text())
    (ahead / "config.json").write_text(json.dumps(config | {"is_causal": False}))
    with pytest.raises(InputError, match="is_causal=false.*name a causal model"):
        CausalScorer(ahead)


def plain(folder, text: str) -> np.ndarray:
    """What transformers says of every next token of a text, without a cache or padding."""
    import torch

    ids = load_tokenizer(folder).encode(text, return_tensors="pt")
    with torch.inference_mode():
        return load_model(folder, head="next_token")(ids).logits[0].float().log_softmax(-1).numpy()


def test_likelihoods_of_a_batch_are_those_of_one_and_of_plain_transformers(folder, scorer):
    done = []
    together = scorer.log_likelihoods(BEGINNING, TEXTS, ENDS, done.append)
    single = [scorer.log_likelihoods(BEGINNING, [text], [end])[0] for text, end in zip(TEXTS, ENDS, strict=True)]
    np.testing.assert_allclose(together, single, atol=1e-4)
    assert sum(done) == len(TEXTS) and len(set(together.round(3).tolist())) == len(TEXTS)
    tokenizer = load_tokenizer(folder)
    for text, end, found in zip(TEXTS, ENDS, together, strict=True):
        tokens = tokenizer.encode(end)
        said = plain(folder, f"{BEGINNING} {text} {end}")[-len(tokens) - 1 : -1]
        assert found == pytest.approx(sum(said[at, token] for at, token in enumerate(tokens)), abs=1e-4)


def test_texts_that_wait_for_their_batch_take_few_bytes_a_token(folder, monkeypatch):
    class Tokenizer:
        def encode(self, text, **_):
            return list(range(1_000, 1_400))  # Python shares the numbers below 257

    scorer = CausalScorer(folder)
    monkeypatch.setattr(scorer, "_tokenizer", Tokenizer())
    monkeypatch.setattr(scorer, "_logits", lambda *_: iter(()))
    tracemalloc.start()
    scorer.log_likelihoods(BEGINNING, ["a text"] * 500, ["an end"] * 500)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 500 * 800, f"{peak / 500 / 800:.0f} bytes a token"


def test_labels_share_the_probability_of_what_comes_next(folder, scorer):
    found = scorer.label_log_probs(BEGINNING, TEXTS, LABELS)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, atol=1e-5)
    tokens = [load_tokenizer(folder).encode(label)[0] for label in LABELS]
    for text, row in zip(TEXTS, found, strict=True):
        said = plain(folder, f"{BEGINNING} {text}")[-1, tokens]
        np.testing.assert_allclose(row, said - np.logaddexp.reduce(said), atol=1e-4)


def test_what_cannot_be_scored_is_the_callers_mistake(scorer):
    with pytest.raises(InputError, match="do not differ in their first token"):
        scorer.label_log_probs(BEGINNING, TEXTS, (" none", " none at all"))
    with pytest.raises(InputError, match="end '' has no token"):
        scorer.log_likelihoods(BEGINNING, TEXTS[:1], [""])
    with pytest.raises(InputError, match="the model reads 512: cut passages shorter"):
        scorer.log_likelihoods(BEGINNING, ["ta " * 600], ["tb"])
    assert len(scorer.log_likelihoods(BEGINNING, [], [])) == 0
