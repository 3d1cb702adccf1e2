"""Every stage, as a step, on small shapes of what the family starts from; what comes out is what was trained."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, PASSAGES, SCORED_TRIPLETS, TRIPLETS
from pipeline_tasks.encoders.layout import Layout, layout_of_folder
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.models.fetch import RECORD
from pipeline_tasks.models.sizes import backbone, get_size
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.adapt_backbone import adapt_backbone
from pipeline_tasks.training.distill import distill
from pipeline_tasks.training.finetune import finetune
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.model.open_model import add_adapters
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.pretrain import pretrain
from tests import shapes
from tests.shapes import TOPICS
from tests.stores import go, put
from tests.training.conftest import passage, query
from tests.training.made import put_model

FEW = range(8)
LITTLE = {"batch_size": 8, "epochs": 1, "max_passage_length": 32, "evals_per_epoch": 1, "device": "cpu"}
SHORT = LITTLE | {"max_query_length": 32}
SIZE_OF = {"bert-large": "335m", "modernbert": "109m", "qwen3": "596m", "llama": "135m"}
TEXTS = ["ta wb wc", "tb", "tc wa wb wc wd we wf wg wh wi wj wk wl tq"]


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Puts a small model of a shape where the backbone of a size is looked for."""

    def put_there(shape: str) -> str:
        monkeypatch.setenv("FOUNDRY_CACHE", str(tmp_path / "cache"))
        settings.cache_clear()
        size = SIZE_OF[shape]
        folder = tmp_path / "cache" / "models" / backbone(size).name
        shapes.make(shape, folder)
        (folder / RECORD).write_text(json.dumps({"source": settings().profile, "files": {}}))
        return size

    return put_there


def pair(topic: int, split: str) -> dict:
    of_passage = {"passage_id": f"p{topic}", "passage": passage(topic), "positive_id": f"g{topic}"}
    texts = {"query": query(topic), "positive": passage(topic, 1)}
    return {"query_id": f"q{topic}-{split}", "intent": "qa", "split": split} | of_passage | texts


def triplet(topic: int, split: str) -> dict:
    others = [(topic + k) % len(TOPICS) for k in (1, 2)]
    taught = {"teacher": "one", "teacher_positive_score": 0.9, "teacher_negative_scores": [0.2, 0.1]}
    negatives = {"negative_ids": [f"p{n}" for n in others], "negatives": [passage(n) for n in others]}
    row = {"query_id": f"q{topic}-{split}", "intent": "qa", "query": query(topic), "split": split}
    return row | {"positive_id": f"p{topic}", "positive": passage(topic)} | negatives | taught


@pytest.fixture
def store(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    splits = [(topic, split) for split in ("train", "dev") for topic in FEW]
    texts = [{"passage_id": f"{split}{t}", "text": passage(t, 3), "split": split} for t, split in splits]
    put(store, PASSAGES, texts, dataset="passages")
    put(store, PAIRS, [pair(*row) for row in splits], dataset="mtp")
    scored = [triplet(*row) for row in splits]
    columns = {column.name for column in TRIPLETS.columns}
    put(store, SCORED_TRIPLETS, scored, dataset="mtt/0.95-kd")
    put(store, TRIPLETS, [{k: v for k, v in row.items() if k in columns} for row in scored], dataset="mtt/0.95")
    return store


@pytest.mark.parametrize("shape", SIZE_OF)
def test_a_shape_goes_through_every_stage(store, cached, tmp_path, shape):
    size = cached(shape)
    stages = []
    if get_size(size).decoder:
        stages.append(go(store, adapt_backbone, size=size, **LITTLE))
        assert 0 <= stages[0].counters["dev_blanks_filled"] <= 1
    stages.append(go(store, pretrain, size=size, **SHORT))
    stages.append(go(store, finetune, size=size, alpha=0.95, **SHORT))
    stages.append(go(store, distill, size=size, **SHORT))
    for made in stages:
        assert made.ref is not None
        folder = Version.open(store, made.ref).lay_out(tmp_path / made.ref.dataset)
        assert json.loads((folder / "config.json").read_text()).get("is_causal") is (
            False if get_size(size).decoder else None
        )
        vectors = load_encoder(folder, tmp_path, threads=1).encode_passages(TEXTS)
        assert vectors.shape == (3, 32)
    assert {key: stages[-1].counters[key] for key in ("training_queries", "dev_queries")} == {
        "training_queries": len(FEW),
        "dev_queries": len(FEW),
    }


def test_a_decoder_that_is_not_adapted_is_refused_or_stays_causal_on_request(store, cached, tmp_path):
    size = cached("qwen3")
    with pytest.raises(InputError, match="run adapt_backbone first, or set causal=true"):
        go(store, pretrain, size=size, **SHORT)
    made = go(store, pretrain, size=size, causal=True, **SHORT)
    assert go(store, pretrain, size=size, causal=True, start_from=[str(made.ref)], **SHORT).ref is not None
    adapted = go(store, adapt_backbone, size=size, **LITTLE)
    with pytest.raises(InputError, match=f"causal=true, and the tokens of {adapted.ref} attend both ways"):
        go(store, pretrain, size=size, causal=True, start_from=[str(adapted.ref)], **SHORT)
    assert made.ref is not None
    folder = Version.open(store, made.ref).lay_out(tmp_path / "causal")
    one, other = load_encoder(folder, tmp_path, threads=1), load(folder)
    with torch.no_grad():
        states = [
            other.model(torch.tensor([ids.tolist()])).last_hidden_state[0, 0]
            for ids in other.tokens.ids(["ta wb wc", "ta wb wd"], 8)
        ]
    assert torch.equal(*states)
    assert one.layout.pooling == "mean"


def test_a_decoder_under_an_encoders_size_stays_causal_on_request_or_as_an_embedder_alone(store, tmp_path, caplog):
    folder = shapes.make("llama", tmp_path / "decoder")
    chosen = SHORT | {"size": "22m", "backbone": str(folder)}
    with pytest.raises(InputError, match="a 'llama' model, is a decoder that was not adapted.*or set causal=true"):
        go(store, pretrain, **chosen)
    assert go(store, pretrain, causal=True, **chosen).ref is not None
    export(load(folder), tmp_path / "embedder", card={}, layout=Layout("last", 32))
    with caplog.at_level(logging.INFO, "pipeline_tasks.training.model.open_model"):
        assert go(store, pretrain, **chosen | {"backbone": str(tmp_path / "embedder")}).ref is not None
    assert "does not look ahead, and pools by its last token" in caplog.text


@pytest.mark.parametrize("size", ["596m", "4b", "7.6b"])
def test_the_plan_of_a_large_size_shows_what_the_paper_has(store, tmp_path, size):
    shapes.make("qwen3", tmp_path / "model")
    adapted = put_model(store, tmp_path / "model", f"model/{size}/adapt")
    put_model(store, tmp_path / "model", f"model/{size}/pretrain")
    chosen = {"size": size, "device": "cuda"}
    for stage, step, more in (
        ("adapt", adapt_backbone, {}), ("pretrain", pretrain, {}), ("finetune", finetune, {"alpha": 0.95})
    ):  # fmt: skip
        job = plan(store, step, chosen | more)
        shown = json.loads(json.dumps(job.identity))
        of_size = get_size(size).stage(stage)
        assert (shown["learning_rate"], shown["batch_size"]) == (of_size.learning_rate, of_size.batch_size)
        assert (shown["lora_rank"], shown["lora_alpha"], shown["precision"]) == (16, 32, "bf16")
        assert job.dataset == f"model/{size}/{stage}"
    assert plan(store, pretrain, chosen).inputs["init"] == [adapted]
    assert "init" not in plan(store, pretrain, chosen | {"causal": True}).inputs


def test_an_encoder_has_nothing_to_adapt(store):
    with pytest.raises(InputError, match="attends both ways already"):
        go(store, adapt_backbone, size="33m")


def test_without_instructions_queries_are_asked_bare(store, cached, tmp_path):
    size = cached("bert-large")
    begun = go(store, pretrain, size=size, **SHORT)
    made = go(store, finetune, {"init": [str(begun.ref)]}, size=size, alpha=0.95, instruct=False, **SHORT)
    assert made.ref is not None
    assert layout_of_folder(Version.open(store, made.ref).lay_out(tmp_path / "out")).prefixes == {"passage": ""}


def test_without_instructions_a_start_goes_on_to_leave_its_prompt_out_of_its_mean(store, cached, tmp_path):
    size = cached("bert-large")
    start = load(tmp_path / "cache" / "models" / backbone(size).name)
    export(start, tmp_path / "start", card={}, layout=Layout("mean", 32, prefixes={"query": "wk "}, pools_prefix=False))
    ref = put_model(store, tmp_path / "start", f"model/{size}/pretrain")
    columns = {column.name for column in TRIPLETS.columns}
    rows = [{k: v for k, v in triplet(topic, "train").items() if k in columns} for topic in FEW]  # none to choose by
    put(store, TRIPLETS, rows, dataset="mtt/0.9")
    for instruct, told in ((False, {}), (True, {"pool_instruction": False}), (True, {})):
        made = go(store, finetune, {"init": [str(ref)]}, size=size, alpha=0.9, instruct=instruct, **told, **SHORT)
        layout = layout_of_folder(Version.open(store, made.ref).lay_out(tmp_path / made.ref.version))
        assert layout.pools_prefix is (instruct and not told)


def test_queries_may_be_longer_than_passages_where_a_model_is_served_as_well(store, cached, tmp_path):
    size = cached("bert-large")
    longer = SHORT | {"max_query_length": 48}
    begun = go(store, pretrain, size=size, **longer)
    made = go(store, finetune, {"init": [str(begun.ref)]}, size=size, alpha=0.95, **longer)
    for ref in (begun.ref, made.ref):
        assert layout_of_folder(Version.open(store, ref).lay_out(tmp_path / ref.dataset)).max_length == 48


def plain(folder: Path, pooling: str) -> np.ndarray:
    """The vectors of TEXTS by plain transformers."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    mask = batch["attention_mask"][..., None].float()
    last = batch["attention_mask"].sum(dim=1) - 1
    pooled = {
        "mean": (hidden * mask).sum(dim=1) / mask.sum(dim=1),
        "cls": hidden[:, 0],
        "last": hidden[torch.arange(len(TEXTS)), last],
    }[pooling]
    return torch.nn.functional.normalize(pooled, dim=1).numpy()


@pytest.mark.parametrize(
    ("shape", "pooling"), [("modernbert", "cls"), ("bert-large", "mean"), ("qwen3", "mean"), ("llama", "last")]
)
def test_what_is_exported_gives_the_trainers_vectors_everywhere(tmp_path, shape, pooling):
    from sentence_transformers import SentenceTransformer

    encoder = load(shapes.make(shape, tmp_path / "start"))
    encoder.layout = Layout(pooling, 32)
    params = TrainParams(size=SIZE_OF[shape], device="cpu")
    if params.lora_rank:
        encoder.model.config.is_causal = False
        add_adapters(encoder, params)
        with torch.no_grad():
            for weights in encoder.trained().values():
                weights.add_(0.02)
    encoder.model.eval()
    with torch.no_grad():
        trained = encoder.encode(encoder.features(encoder.tokens.ids(TEXTS, 32))).numpy()
    export(encoder, tmp_path / "out", card={}, layout=encoder.layout, keep_adapters=True)
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu", local_files_only=True).encode(TEXTS)
    np.testing.assert_allclose(theirs, trained, atol=1e-5)
    np.testing.assert_allclose(plain(tmp_path / "out", pooling), trained, atol=1e-5)
    np.testing.assert_allclose(load_encoder(tmp_path / "out", tmp_path).encode(TEXTS), trained, atol=1e-5)
    assert layout_of_folder(tmp_path / "out").pooling == pooling
    kept = tmp_path / "out" / "adapter"
    assert kept.is_dir() is bool(params.lora_rank)
    if kept.is_dir():
        assert str(tmp_path) not in (kept / "adapter_config.json").read_text()
        assert sorted(path.name for path in kept.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]


def test_a_finished_embedder_that_pools_otherwise_is_trained_and_saved_as_it_pools(store, cached, tmp_path):
    size = cached("modernbert")
    encoder = load(tmp_path / "cache" / "models" / backbone(size).name)
    export(encoder, tmp_path / "cls", card={}, layout=Layout("cls", 32))
    ref = put_model(store, tmp_path / "cls", "model/22m/finetune")
    made = go(store, pretrain, {"init": [str(ref)]}, size=size, **SHORT)
    tuned = go(store, finetune, {"init": [str(made.ref)]}, size=size, alpha=0.95, **SHORT)
    for ref in (made.ref, tuned.ref):
        folder = Version.open(store, ref).lay_out(tmp_path / ref.dataset)
        assert layout_of_folder(folder).pooling == "cls"
