"""The mean of models: of their weights, of one start, asked alike."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.encoders.layout import Layout, layout_of_folder
from pipeline_tasks.encoders.projection import Dense
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training.average_models import average_models
from pipeline_tasks.training.model.export import export
from tests import shapes
from tests.stores import go
from tests.training.made import put_model

MODELS = ("model/33m/pretrain", "model/33m/finetune")


def put_changed(store: LocalStore, start, dataset: str, change: float, layout: Layout, version: str = "0" * 16) -> Ref:
    """A version whose weights are those of ``start`` and a little noise, the same for the same ``change``."""
    folder = start.parent / dataset.replace("/", "-")
    shutil.rmtree(folder, ignore_errors=True)
    export(load(start), folder, card={}, layout=layout)
    weights = load_file(folder / "model.safetensors")
    noise = torch.Generator().manual_seed(int(100 * change))
    changed = {
        name: w + change * w.std(correction=0) * torch.randn(w.shape, generator=noise) for name, w in weights.items()
    }
    save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
    return put_model(store, folder, dataset, version)


@pytest.fixture
def store(tmp_path, tiny_bert) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    start = shutil.copytree(tiny_bert, tmp_path / "start")
    for name, change in zip(MODELS, (0.01, 0.02), strict=True):
        put_changed(store, start, name, change, Layout("mean", 32))
    return store


def weights_of(store: LocalStore, dataset: str) -> dict[str, torch.Tensor]:
    files = {str(name): path for name, path in Version.open(store, Ref.parse(dataset)).files()}
    return load_file(files["model.safetensors"])


@pytest.mark.parametrize("counts", [(), (3.0, 1.0)])
def test_every_weight_is_the_mean(store, counts):
    made = go(store, average_models, models=MODELS, weights=counts).ref
    shares = np.array(counts or (1, 1)) / sum(counts or (1, 1))
    found, one, other = (weights_of(store, name) for name in (str(made), *MODELS))
    assert found.keys() == one.keys()
    for name, tensor in found.items():
        wanted = shares[0] * one[name].double() + shares[1] * other[name].double()
        torch.testing.assert_close(tensor.double(), wanted, rtol=1e-6, atol=1e-7)
    assert any((one[name] - other[name]).abs().max() > 1e-3 for name in one), "two models, not one"


def test_weights_that_several_layers_share_are_the_mean_too(tmp_path):
    store, start = LocalStore(tmp_path / "store"), shapes.make("bart", tmp_path / "start")
    for name, change in zip(MODELS, (0.1, 0.2), strict=True):
        put_changed(store, start, name, change, Layout("mean", 32))
    made = go(store, average_models, models=MODELS).ref
    found, one, other = (weights_of(store, name) for name in (str(made), *MODELS))
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, (one[name] + other[name]) / 2, rtol=1e-5, atol=1e-6)


def test_the_untrained_start_counts_as_much_as_is_said_and_has_no_say_in_how_it_is_asked(store, tmp_path):
    start = tmp_path / "start"
    instructed = Layout("mean", 32, prefixes={"qa": "wa: "})
    put_changed(store, start, "model/33m/instructions", 0.02, instructed)
    made = go(store, average_models, models=("model/33m/instructions",), start=str(start), weights=(3.0,)).ref
    found, trained = weights_of(store, str(made)), weights_of(store, "model/33m/instructions")
    for name, untrained in load(start).model.state_dict().items():
        wanted = 0.75 * trained[name].double() + 0.25 * untrained.double()
        torch.testing.assert_close(found[name].double(), wanted, rtol=1e-6, atol=1e-7)
    assert layout_of_folder(Version.open(store, made).lay_out(tmp_path / "laid")).prefixes["qa"] == "wa: "
    assert Version.open(store, made).manifest.params["start"]["sha256"]
    half = go(store, average_models, models=("model/33m/instructions",), start=str(start)).ref
    more = go(store, average_models, models=("model/33m/instructions",), start=str(start), start_weight=3).ref
    assert len({made.version, half.version, more.version}) == 3


def test_models_of_which_one_looks_ahead_have_no_mean(store, tmp_path):
    causal = shapes.make("llama", tmp_path / "causal")
    for name, ahead in (("a", True), ("b", False)):
        folder, encoder = tmp_path / name, load(causal)
        encoder.model.config.is_causal = ahead
        export(encoder, folder, card={}, layout=Layout("mean", 32))
        put_model(store, folder, f"model/33m/{name}")
    with pytest.raises(InputError, match="do not both look ahead"):
        go(store, average_models, models=("model/33m/a", "model/33m/b"))


def test_it_is_asked_as_they_are_and_names_them(store, tmp_path):
    made = go(store, average_models, models=MODELS).ref
    folder = Version.open(store, made).lay_out(tmp_path / "laid")
    assert layout_of_folder(folder) == layout_of_folder(tmp_path / "model-33m-pretrain")
    assert all(f"{name}@{'0' * 16} (1)" in (folder / "README.md").read_text() for name in MODELS)


def test_models_of_two_starts_have_no_mean(store, tmp_path, tiny_bert):
    other = shutil.copytree(tiny_bert, tmp_path / "other")
    torch.manual_seed(1)
    weights = {n: torch.randn(w.shape) * w.std(correction=0) for n, w in load_file(other / "model.safetensors").items()}
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    put_changed(store, other, "model/33m/distill", 0.01, Layout("mean", 32))
    with pytest.raises(
        InputError, match=r"model/33m/distill@0+ and model/33m/pretrain@0+ .*not trained from one start"
    ):
        go(store, average_models, models=(MODELS[0], "model/33m/distill"))


def test_models_that_are_asked_differently_are_refused(store, tmp_path, tiny_bert):
    instructed = Layout("mean", 32, prefixes={"qa": "wa: "})
    put_changed(store, tmp_path / "start", "model/33m/distill", 0.01, instructed)
    with pytest.raises(InputError, match=r"model/33m/distill@0+ is asked otherwise .*1 prompts.*average one stage's"):
        go(store, average_models, models=(MODELS[0], "model/33m/distill"))


def test_vectors_that_were_turned_in_two_ways_have_no_mean(store, tmp_path, tiny_bert):
    width = load(tiny_bert).width
    turned = Layout("mean", 32, projection=(Dense(-np.eye(width, dtype=np.float32)),))
    put_changed(store, tmp_path / "start", "model/33m/ordered", 0.02, turned)
    with pytest.raises(InputError, match=r"model/33m/ordered@0+ and .* different Dense modules.*order_dimensions"):
        go(store, average_models, models=(MODELS[0], "model/33m/ordered"))


def test_models_of_two_shapes_are_refused(store, tmp_path):
    put_changed(store, shapes.make("bert-large", tmp_path / "large"), "model/33m/distill", 0.01, Layout("mean", 32))
    with pytest.raises(InputError, match="is of another shape than model/33m/pretrain"):
        go(store, average_models, models=(MODELS[0], "model/33m/distill"))


def test_one_version_under_two_names_is_refused(store):
    with pytest.raises(InputError, match="input models names .* more than once; name it once"):
        go(store, average_models, models=(MODELS[0], f"{MODELS[0]}@{'0' * 16}"))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"models": MODELS[:1]}, "name at least two models, or one and a start"),
        ({"models": (), "start": "all-minilm-l6-v2"}, "at least 1"),
        ({"models": MODELS, "start": "no-such-model"}, "no-such-model"),
        ({"models": MODELS, "weights": (1.0,)}, "2 models need as many weights, not 1"),
        ({"models": MODELS, "weights": (1.0, 0.0)}, "greater than 0"),
        ({"models": MODELS, "size": "7b"}, "7b"),
        ({"models": (MODELS[0], MODELS[0])}, "names one twice"),
    ],
)
def test_what_cannot_be_is_said(store, values, said):
    with pytest.raises(InputError, match=said):
        go(store, average_models, **values)
