"""What a backbone cannot do is told: by a dry run, and by a training before it reads its rows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import MPNetConfig, MPNetModel

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PAIRS, TRIPLETS
from pipeline_tasks.training.dry_run.forecast import forecast_lines
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.model.limits import check_recompute
from pipeline_tasks.training.pretrain import pretrain
from tests import shapes
from tests.stores import go, put
from tests.training.made import pairs_only, put_model

AGAIN = {"size": "22m", "device": "cpu", "recompute": True}


@pytest.fixture(scope="module")
def mpnet(tmp_path_factory) -> Path:
    folder = shapes.make("bert", tmp_path_factory.mktemp("models") / "mpnet")
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 600}
    with torch.random.fork_rng():
        MPNetModel(MPNetConfig(**shapes.SIZE, vocab_size=len(shapes.words("bert")), **heads)).save_pretrained(folder)
    return folder


def test_a_model_that_cannot_recompute_is_told_by_the_dry_run_and_by_the_run(tmp_path, mpnet):
    store = LocalStore(tmp_path / "store")
    pair = {"query_id": "q", "passage_id": "p", "query": "ta", "passage": "ta wa", "positive": "ta wb"}
    put(store, PAIRS, [pair | {"intent": "qa", "split": "train", "origin": "dm"}], dataset="mtp")
    put(store, TRIPLETS, [], dataset="mtt/0.95")
    trained = put_model(store, mpnet, "model/22m/pretrain")
    begun = plan(store, pretrain, AGAIN | {"backbone": str(mpnet)})
    after = plan(store, finetune, AGAIN | {"alpha": 0.95}, {"init": [str(trained)]})
    for job in (begun, after):
        with pytest.raises(InputError, match="cannot compute the activations of 'mpnet' models again; leave it out"):
            forecast_lines(Inputs(job.open(store)), job.params)
    with pytest.raises(InputError, match="cannot compute the activations of 'mpnet' models again"):
        go(store, pretrain, backbone=str(mpnet), **AGAIN)


@pytest.mark.parametrize("kind", ["bert", "modernbert", "qwen3", "xlm-roberta", "", "of-nobody"])
def test_others_and_those_that_nobody_knows_pass(kind):
    check_recompute(kind)


def test_where_no_weights_are_at_hand_a_dry_run_says_what_it_did(tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_CACHE", str(tmp_path / "cache"))
    store = pairs_only(tmp_path / "store")
    job = plan(store, pretrain, AGAIN)
    assert forecast_lines(Inputs(job.open(store)), job.params, "H100")[0].startswith("22m: ")
