"""A model bears the licences of its backbone and of all weights behind the data that it learned from."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.licences import licences_of
from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, point
from pipeline_tasks.datasets import PAIRS, TRIPLETS
from pipeline_tasks.models.sizes import SIZES, backbone
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.pretrain import PretrainParams, pretrain

JUDGE = {"nv-embed-v2": "CC-BY-NC-4.0"}
OURS = {backbone("33m").name: backbone("33m").licence}


def put(store: LocalStore, dataset: str, schema: str, licences: dict[str, str]) -> None:
    """A version without rows, made with weights of these licences."""
    facts = {"step": "by_hand", "code_version": "1", "key": "k", "params": {}, "inputs": {}, "rows": 0, "parts": []}
    manifest = Manifest(dataset=dataset, id="0" * 16, rows_schema=schema, licences=licences, **facts)
    commit(store, manifest)
    point(store, manifest.ref)


@pytest.fixture
def store(tmp_path) -> LocalStore:
    """Pairs of nobody's weights, triplets that a non-commercial model judged, and a model."""
    store = LocalStore(tmp_path)
    put(store, "mtp", PAIRS.name, {})
    put(store, "mtt/0.65", TRIPLETS.name, JUDGE)
    put(store, "model/33m/pretrain", FILES, OURS)
    return store


@pytest.mark.parametrize("size", SIZES)
def test_pre_training_names_the_licence_of_its_backbone(size):
    assert PretrainParams(size=size).licences() == {backbone(size).name: backbone(size).licence}


def test_a_model_bears_those_of_backbone_and_data(store):
    assert licences_of(store, plan(store, pretrain, {})) == OURS
    assert licences_of(store, plan(store, finetune, {})) == OURS | JUDGE


@pytest.fixture
def refusing(monkeypatch):
    monkeypatch.setenv("FOUNDRY_ALLOW_NONCOMMERCIAL", "false")
    settings.cache_clear()


def test_the_setting_refuses_to_train_on_what_non_commercial_weights_judged(store, refusing):
    assert licences_of(store, plan(store, pretrain, {})) == OURS
    with pytest.raises(InputError, match="model/33m/finetune would be made with non-commercial weights .nv-embed-v2"):
        licences_of(store, plan(store, finetune, {}))
