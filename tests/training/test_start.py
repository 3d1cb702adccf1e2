"""Training starts from any model that is named, asked as its own files say."""

from __future__ import annotations

import shutil
from dataclasses import replace
from socket import gethostname

import numpy as np
import pyarrow as pa
import pytest
import torch

from pipeline_tasks.cli.costs import CostSources
from pipeline_tasks.cli.plan_chain import Chain, PlannedStep, by_name
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.lineage.rates import Rates
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, PASSAGES, TRIPLETS
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.encoders.projection import Dense, save_dense
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.adapt_backbone import adapt_backbone
from pipeline_tasks.training.average_models import average_models
from pipeline_tasks.training.data.prompting import with_passage_prefix
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.finetune import FinetuneParams, finetune
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.pretrain import dev_set, pretrain
from pipeline_tasks.training.triplets import prompts
from pipeline_tasks.training.validation import validate
from tests import shapes
from tests.stores import go, put
from tests.training.conftest import passage, query
from tests.training.made import pairs_only

SHORT = {"size": "22m", "batch_size": 4, "max_query_length": 32, "max_passage_length": 32, "device": "cpu"}
ASKED = {"query": "wa ", "passage": "wb "}
CARD = {"name": "Mine", "summary": ""}


def pair(topic: int, split: str) -> dict:
    texts = {"query": query(topic), "passage": passage(topic), "positive": passage(topic, 1)}
    return {"query_id": f"q{topic}-{split}", "intent": "qa", "split": split, "passage_id": f"p{topic}"} | texts


def triplet(topic: int) -> dict:
    row = {"query_id": f"q{topic}", "intent": "qa", "query": query(topic), "split": "train", "positive_id": f"p{topic}"}
    return row | {"positive": passage(topic), "negative_ids": ["n"], "negatives": [passage(topic + 1)]}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    put(store, PAIRS, [pair(topic, "train") for topic in range(6)] + [pair(9, "dev")], dataset="mtp")
    put(store, TRIPLETS, [triplet(topic) for topic in range(4)], dataset="mtt/0.95")
    return store


@pytest.fixture(scope="session")
def finished(tiny_bert, tmp_path_factory):
    """A finished embedder: CLS, and a prefix before all queries and another before all passages."""
    folder = tmp_path_factory.mktemp("finished")
    export(load(tiny_bert), folder, card=CARD, layout=Layout("cls", 24, prefixes=ASKED))
    return folder


def test_a_folder_starts_a_chain_that_pools_and_asks_as_it_does(store, finished, tmp_path):
    made = go(store, pretrain, backbone=str(finished), **SHORT)
    version = Version.open(store, made.ref)
    found = layout_of(version.lay_out(tmp_path / "out"))
    assert (found.pooling, found.prefixes) == ("cls", ASKED)
    name = version.manifest.params["backbone"]["name"]
    assert version.manifest.licences == {name: "unknown: its folder names none"}
    assert f"| backbone | {name} |" in (tmp_path / "out" / "README.md").read_text()
    everything = version.manifest.model_dump_json() + (tmp_path / "out" / "README.md").read_text()
    assert str(finished) not in everything
    weights = []
    for pooled in (True, False):
        tuned = go(store, finetune, {"init": [str(made.ref)]}, alpha=0.95, pool_instruction=pooled, **SHORT)
        folder = Version.open(store, tuned.ref).lay_out(tmp_path / f"tuned-{pooled}")
        after = layout_of(folder)
        assert (after.pooling, after.prefixes) == ("cls", prompts() | {"passage": ASKED["passage"]})
        weights.append((folder / "model.safetensors").read_bytes())
    assert weights[0] == weights[1], "of one token there is no mean that could leave the instruction out"


def test_dense_modules_of_a_start_stay_through_the_chain_and_count_in_its_id(store, tiny_bert, tmp_path):
    encoder, folder = load(tiny_bert), tmp_path / "dense"
    weights = np.random.default_rng(0).standard_normal((6, encoder.width)).astype(np.float32)
    export(encoder, folder, card=CARD, layout=Layout("mean", 24, projection=(Dense(weights),)))
    made = go(store, pretrain, backbone=str(folder), **SHORT)
    tuned = go(store, finetune, {"init": [str(made.ref)]}, alpha=0.95, **SHORT)
    for place, ref in (("made", made.ref), ("tuned", tuned.ref)):
        assert layout_of(Version.open(store, ref).lay_out(tmp_path / place)).projection == (Dense(weights),)
    save_dense(Dense(-weights), folder / "2_Dense")
    assert plan(store, pretrain, {"backbone": str(folder)} | SHORT).ref != made.ref


def test_an_encoder_starts_a_chain_without_the_decoder_beside_it(store, tmp_path):
    from sentence_transformers import SentenceTransformer

    folder, texts = shapes.make("t5", tmp_path / "t5"), [passage(1), query(2)]
    made = [go(store, pretrain, backbone=str(folder), seed=seed, **SHORT).ref for seed in (0, 1)]
    tuned = go(store, finetune, {"init": [str(made[0])]}, alpha=0.95, **SHORT).ref
    mean = go(store, average_models, size="22m", models=tuple(map(str, made))).ref
    one, other, both, _ = laid = [
        Version.open(store, ref).lay_out(tmp_path / ref.version) for ref in (*made, mean, tuned)
    ]
    for out in laid:
        theirs = SentenceTransformer(str(out), device="cpu", local_files_only=True).encode(texts)
        np.testing.assert_allclose(load_encoder(out, tmp_path).encode(texts), theirs, atol=1e-6)
    weights = [load(out).model.state_dict() for out in (one, other, both)]
    for name, found in weights[2].items():
        torch.testing.assert_close(found, (weights[0][name] + weights[1][name]) / 2)


def test_the_same_files_elsewhere_are_the_same_version_and_others_are_another(store, finished, tmp_path):
    first = go(store, pretrain, backbone=str(finished), **SHORT)
    copy = shutil.copytree(finished, tmp_path / "copy")
    again = go(store, pretrain, backbone=str(copy), **SHORT)
    assert again.reused and again.ref == first.ref
    (copy / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    assert plan(store, pretrain, {"backbone": str(copy)} | SHORT).ref != first.ref


def test_a_folder_that_changed_after_the_run_was_planned_does_not_train(store, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    job = plan(store, pretrain, {"backbone": str(copy)} | SHORT)
    (copy / "config_sentence_transformers.json").write_text("{}")
    with pytest.raises(InputError, match="changed since this run began"):
        run_job(store, job)


def test_a_folder_that_the_machine_that_trains_does_not_have_is_told_apart_from_one_that_changed(
    store, finished, tmp_path
):
    copy = shutil.copytree(finished, tmp_path / "copy")
    job = plan(store, pretrain, {"backbone": str(copy)} | SHORT)
    shutil.rmtree(copy)
    with pytest.raises(InputError, match=f"copy' is no folder on {gethostname()}.*put it where both this machine and"):
        run_job(store, job)


def test_a_registered_name_starts_another_size_than_its_own(tmp_path):
    spec = get("all-minilm-l6-v2")
    fetch(spec, settings().cache)
    store = pairs_only(tmp_path / "s")
    of_size, named = (
        plan(store, pretrain, {"size": "33m", "device": "cpu"} | more) for more in ({}, {"backbone": spec.name})
    )
    assert named.ref != of_size.ref
    assert named.params.start.files(tmp_path / "x") == fetch(spec, settings().cache)
    assert named.params.licences() == {spec.name: spec.licence}
    same = plan(store, pretrain, {"size": "33m", "device": "cpu", "backbone": "minilm-l12-h384"})
    assert same.ref == of_size.ref


def test_a_decoder_in_a_folder_is_adapted(store, tmp_path):
    put(store, PASSAGES, [{"passage_id": "p", "text": "t", "split": "train"}])
    job = plan(store, adapt_backbone, {"size": "596m", "backbone": "qwen3-0.6b"})
    assert job.ref == plan(store, adapt_backbone, {"size": "596m"}).ref
    with pytest.raises(InputError, match="no model's folder"):
        plan(store, adapt_backbone, {"size": "596m", "backbone": str(tmp_path / "none")})


class TestGiven:
    layout = Layout("mean", 8, prefixes={"passage": "p: "})

    def test_every_passage_of_texts_and_of_lists_of_texts(self):
        lists = pa.chunked_array([[["z"], ["a", "b"]], [[], ["c"]]]).slice(1)
        coded = pa.chunked_array([pa.ListArray.from_arrays([0, 1, 2], pa.array(["a", "b"]).dictionary_encode())])
        assert with_passage_prefix(pa.chunked_array([["a"], ["b"]]), self.layout).to_pylist() == ["p: a", "p: b"]
        assert with_passage_prefix(lists, self.layout).to_pylist() == [["p: a", "p: b"], [], ["p: c"]]
        assert with_passage_prefix(coded, self.layout).to_pylist() == [["p: a"], ["p: b"]]
        assert with_passage_prefix(lists, Layout("mean", 8)) is lists

    def test_a_mean_that_is_to_leave_it_out_is_refused(self):
        with pytest.raises(InputError, match="set pool_instruction=true"):
            with_passage_prefix(pa.chunked_array([["a"]]), replace(self.layout, pools_prefix=False))

    @pytest.mark.parametrize("pooling", ["cls", "last"])
    def test_where_one_token_is_the_vector_there_is_no_mean_to_leave_it_out_of(self, pooling):
        layout = replace(self.layout, pooling=pooling, pools_prefix=False)
        assert with_passage_prefix(pa.chunked_array([["a"]]), layout).to_pylist() == ["p: a"]


def test_the_start_is_scored_with_what_it_wants_before_passages(store, finished):
    examples = dev_set(Version.open(store, Ref.parse("mtp")), layout_of(finished))
    (rows,) = (block for block in examples.blocks() if len(block))
    assert rows["positive"].to_pylist() == [ASKED["passage"] + passage(9)]
    assert examples.others == [ASKED["passage"] + passage(9, 1)]
    assert rows["query"].to_pylist() == [ASKED["query"] + query(9)]


def test_the_start_is_scored_where_its_own_files_cut_texts(store, finished, tmp_path):
    far = [15 * "wc " + passage(topic) for topic in range(9)]
    asked = [pair(topic, "dev") | {"passage": text, "positive": text} for topic, text in enumerate(far)]
    pairs = put(store, PAIRS, [pair(topic, "train") for topic in range(6)] + asked, dataset="mtp")
    layout, encoder = layout_of(finished), load(finished)
    scores = {}
    for cut in (16, layout.max_length):
        lengths = {"max_query_length": cut, "max_passage_length": cut}
        dev = dev_set(Version.open(store, pairs), layout)
        rows = tokenized(dev, encoder.tokens, tmp_path / str(cut), **lengths)
        scores[cut] = round(validate(encoder, rows, 1024, autocast=False), 4)
    made = go(store, pretrain, backbone=str(finished), **SHORT | {"max_query_length": 16, "max_passage_length": 16})
    assert made.counters["dev_ndcg_at_10_of_start"] == scores[24] != scores[16]


def test_a_chain_knows_what_its_first_model_was_made_from(store, finished, tiny_bert, tmp_path):
    made = go(store, pretrain, backbone=str(finished), **SHORT)
    (name,) = Version.open(store, made.ref).manifest.licences
    tuned = go(store, finetune, {"init": [str(made.ref)]}, alpha=0.95, **SHORT)
    for number, begun in enumerate((made, tuned)):
        last = go(store, pretrain, {"init": [str(begun.ref)]}, backbone=str(finished), epochs=number + 1, **SHORT)
        version = Version.open(store, last.ref)
        card = (version.lay_out(tmp_path / f"out-{number}") / "README.md").read_text()
        assert f"| backbone | {name} |" in card and f"| initialised from | {begun.ref} |" in card
        assert set(version.manifest.licences) == {name}, "the size's own weights are not in it"
        with pytest.raises(InputError, match=f"has no effect beside .*, which was made from {name}: leave one of them"):
            go(store, pretrain, {"init": [str(begun.ref)]}, backbone=str(tiny_bert), **SHORT)


def test_fine_tuning_without_pre_training_starts_from_the_backbone_and_what_follows_knows_it(store, finished, tmp_path):
    chosen = {"backbone": str(finished), "alpha": 0.95, **SHORT}
    first = go(store, finetune, pretrained=False, **chosen)
    second = go(store, finetune, {"init": [str(first.ref)]}, **chosen)
    assert plan(store, finetune, {"alpha": 0.95, **SHORT}, {"init": [str(first.ref)]}).ref == second.ref
    begun, version = (Version.open(store, one.ref) for one in (first, second))
    name = begun.manifest.params["backbone"]["name"]
    assert "init" not in begun.manifest.inputs and "backbone" not in version.manifest.params
    assert set(begun.manifest.licences) == set(version.manifest.licences) == {name}
    for one in (begun, version):
        folder = one.lay_out(tmp_path / one.manifest.id)
        assert layout_of(folder).pooling == "cls" and f"| backbone | {name} |" in (folder / "README.md").read_text()
    for epochs in (1, 2):  # of what is made, whose id has no backbone, as well as of what is not
        other = chosen | {"backbone": "all-minilm-l6-v2", "epochs": epochs}
        with pytest.raises(InputError, match=f"backbone='all-minilm-l6-v2' has no effect beside .* made from {name}"):
            run_job(store, plan(store, finetune, other, {"init": [str(first.ref)]}))


def test_a_plain_backbone_is_fine_tuned_without_pre_training_by_the_mean_of_its_tokens(store, tiny_bert, tmp_path):
    made = go(store, finetune, pretrained=False, backbone=str(tiny_bert), alpha=0.95, **SHORT)
    assert layout_of(Version.open(store, made.ref).lay_out(tmp_path / "out")).pooling == "mean"


@pytest.mark.parametrize(
    ("size", "given", "said"),
    [
        ("22m", {"init": ["model/22m/pretrain"]}, "pretrained=false starts from the backbone, and init names another"),
        ("33m", {}, "judge pairs .* leave pretrained=false out, or name a size or backbone that embeds"),
        ("33m", {"triplets": ["coming"]}, "judge pairs .* leave pretrained=false out"),
    ],
)
def test_a_chain_is_refused_before_it_begins_that_cannot_start_without_pre_training(store, size, given, said):
    chain = Chain(CostSources(store, Rates([], []), "", 2.0))
    chain.add(PlannedStep(pretrain, SHORT, {}, "coming"))
    (asked,) = by_name(["finetune"], {"size": size, "alpha": 0.95, "pretrained": "false"}, given)
    with pytest.raises(InputError, match=said):
        chain.add(asked)


def test_a_decoder_is_adapted_before_it_is_fine_tuned(monkeypatch):
    monkeypatch.setattr(FinetuneParams, "model_post_init", lambda *_: None)
    with pytest.raises(InputError, match="has a decoder, which is adapted first: .* --input init=model/596m/adapt"):
        FinetuneParams(size="596m", pretrained=False).check_inputs(["triplets"])


def test_a_model_to_start_from_that_is_not_there_is_missed(store, finished):
    with pytest.raises(InputError, match="start_from='model/22m/finetun' is not in the store: train it, or leave"):
        go(store, pretrain, backbone=str(finished), start_from=["model/22m/finetun"], **SHORT)


def test_text_that_is_all_held_out_adds_nothing_and_is_refused(store, tmp_path):
    held_out = {"passage_id": "p", "text": "Two sentences. And one more.", "split": "test"}
    put(store, PASSAGES, [held_out], dataset="corpus/w")
    with pytest.raises(InputError, match="cloze_from: no row of corpus/w@[0-9a-f]+ is of the split train; read it in"):
        go(store, pretrain, cloze_from=["corpus/w"], **SHORT)
    shapes.make("qwen3", tmp_path / "decoder")
    given = {"size": "596m", "backbone": str(tmp_path / "decoder"), "general_from": ["corpus/w"], "device": "cpu"}
    with pytest.raises(InputError, match="general_from: no row of corpus/w"):
        go(store, adapt_backbone, {"passages": ["corpus/w"]}, **given)
