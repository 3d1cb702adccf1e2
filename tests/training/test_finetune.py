"""Fine-tuning as a step: what was mined is what is used, and a model's files say how it wants to be asked."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core import lineage
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import Outcome
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import TRIPLETS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import FILE
from pipeline_tasks.encoders.layout import Layout, layout_of_folder
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.evaluation.systems import Queries, encoder_of_version
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training import triplets
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.finetune import FinetuneParams, finetune
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.triplets import dev_set, prompts
from tests.shapes import TOPICS
from tests.stores import go, put
from tests.training.conftest import passage, query
from tests.training.made import put_model

N_MINED = 12
SMALL = {"max_query_length": 32, "max_passage_length": 32, "batch_size": 24, "evals_per_epoch": 1, "device": "cpu"}
LEARNING = SMALL | {"batch_size": 8, "learning_rate": 3e-3, "temperature": 0.1}


def triplet(topic: int, split: str, answer: int) -> dict:
    negatives = [(answer + k) % len(TOPICS) for k in range(1, N_MINED + 1)]
    return {
        "query_id": f"q{topic}-{split}",
        "intent": "qa",
        "query": query(topic),
        "positive_id": f"p{answer}",
        "positive": passage(answer),
        "negative_ids": [f"p{n}" for n in negatives],
        "negatives": [passage(n) for n in negatives],
        "negative_scores": [0.1] * N_MINED,
        "split": split,
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory, tiny_bert) -> LocalStore:
    """A model without prompts, and builds of twelve negatives a query.

    Dev queries of 0.65 and 0.99 are those of training; the answers that 0.99 trains on are wrong; 0.5 has no dev query.
    """
    store = LocalStore(tmp_path_factory.mktemp("store"))
    start = tmp_path_factory.mktemp("start")
    export(load(tiny_bert), start, card={}, layout=Layout("mean", 32))
    put_model(store, start, "model/33m/pretrain")
    topics = range(len(TOPICS))
    right, wrong = ([triplet(topic, "train", (topic + k) % len(TOPICS)) for topic in topics] for k in (0, 1))
    dev = [triplet(topic, "dev", topic) for topic in topics]
    for alpha, rows in {"0.5": right, "0.65": right + dev, "0.99": wrong + dev}.items():
        put(store, TRIPLETS, rows, dataset=f"mtt/{alpha}")
    return store


@pytest.fixture(scope="module")
def good(store) -> Outcome:
    """A fine-tuned model that learned."""
    return go(store, finetune, **LEARNING, epochs=6, pool_instruction=False)


def laid_out(store: LocalStore, ref: Ref | None, folder: Path) -> Path:
    assert ref is not None
    return Version.open(store, ref).lay_out(folder)


@pytest.mark.parametrize(("asked", "used"), [(None, N_MINED), (3, 3), (99, N_MINED)])
def test_negatives_above_nine_that_were_mined_and_not_used(store, asked, used):
    """At a high temperature all candidates are as likely: the loss is ln(1 + their number)."""
    made = go(store, finetune, **SMALL, alpha=0.5, temperature=1e6, n_negatives=asked)
    assert made.counters["negatives"] == used * len(TOPICS)
    assert made.counters["first_loss"] == pytest.approx(math.log(1 + used), abs=1e-3)


def test_the_counters_say_which_step_won_and_what_the_start_scored(store, good, tmp_path):
    counters = good.counters
    assert counters["best_step"] > 0
    assert counters["dev_ndcg_at_10"] > counters["dev_ndcg_at_10_of_start"] > 0
    card = (laid_out(store, good.ref, tmp_path / "out") / "README.md").read_text()
    assert f"| checkpoint | step {counters['best_step']} of {counters['optimiser_steps']}, NDCG@10" in card
    assert "| learning_rate | 0.003 |" in card


@pytest.mark.parametrize("given", [[], [triplet(0, "dev", 0)]])
def test_an_empty_build_is_refused_with_what_fills_it(store, given):
    build = put(store, TRIPLETS, given, dataset="mtt/0.1")
    with pytest.raises(InputError, match=f"^{build} has no training rows; label more queries or raise alpha$"):
        go(store, finetune, **SMALL, alpha=0.1)


def test_development_rows_tell_the_intent_by_which_they_are_scored(store, tiny_bert, tmp_path):
    asked = [triplet(topic, "dev", topic) | {"intent": "nli" if topic == 1 else "qa"} for topic in range(4)]
    build = Version.open(store, put(store, TRIPLETS, asked, dataset="mtt/several"))
    dev = dev_set(build, FinetuneParams(size="33m"), Layout("mean", 32))
    rows = tokenized(dev, load(tiny_bert).tokens, tmp_path, max_query_length=16, max_passage_length=16)
    assert [rows.sources[number] for number in rows.source_of] == ["qa", "nli", "qa", "qa"]


def test_an_iteration_that_only_hurts_gives_its_start_back_asked_as_before(store, good, tmp_path):
    worse = go(store, finetune, {"init": [str(good.ref)]}, **LEARNING, alpha=0.99, pool_instruction=True)
    assert worse.counters["best_step"] == 0
    assert worse.counters["dev_ndcg_at_10"] == worse.counters["dev_ndcg_at_10_of_start"]
    before, after = laid_out(store, good.ref, tmp_path / "before"), laid_out(store, worse.ref, tmp_path / "after")
    assert (after / "model.safetensors").read_bytes() == (before / "model.safetensors").read_bytes()
    assert layout_of_folder(after) == layout_of_folder(before)
    assert "the start: no later one scored as high" in (after / "README.md").read_text()


@pytest.mark.parametrize("pooled", [True, False])
def test_a_fine_tuned_folder_says_how_it_wants_to_be_asked(store, tmp_path, pooled):
    made = go(store, finetune, **SMALL, alpha=0.5, pool_instruction=pooled)
    layout = layout_of_folder(laid_out(store, made.ref, tmp_path / "out"))
    assert layout.prefixes == prompts() | {"passage": ""}
    assert (layout.pools_prefix, layout.max_length) == (pooled, 32)


def test_a_training_keeps_the_instructions_that_it_began_with_where_their_file_is_edited(store, tmp_path, monkeypatch):
    folder = shutil.copytree(domain_folder(), tmp_path / "mine", ignore=shutil.ignore_patterns("sample", "recordings"))
    monkeypatch.setenv("FOUNDRY_DOMAIN", str(folder))
    settings.cache_clear()
    train, before = triplets.train_and_export, prompts()

    def edited_meanwhile(*args):
        with (folder / FILE).open("r+") as file:
            given = file.read().replace('instruction = "', 'instruction = "Please: ')
            file.seek(0)
            file.write(given)
        return train(*args)

    monkeypatch.setattr(triplets, "train_and_export", edited_meanwhile)
    try:
        made = go(store, finetune, **SMALL, alpha=0.5, seed=1)
        assert prompts() != before
        assert layout_of_folder(laid_out(store, made.ref, tmp_path / "out")).prefixes == before | {"passage": ""}
        assert plan(store, finetune, {**SMALL, "alpha": 0.5, "seed": 1}).ref != made.ref
    finally:
        settings.cache_clear()


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
@pytest.mark.parametrize("instructed", [{"qa": "wa tb wb wc "}, {}])
def test_evaluation_asks_by_the_files_of_a_model_and_not_by_its_name(tmp_path, tiny_bert, stage, instructed):
    store = LocalStore(tmp_path / "store")
    layout = Layout("mean", 32, prefixes=instructed)
    export(load(tiny_bert), tmp_path / "model", card={}, layout=layout)
    version = Version.open(store, put_model(store, tmp_path / "model", f"model/33m/{stage}"))
    queries, passages = ([text(topic) for topic in range(len(TOPICS))] for text in (query, passage))
    intents = ["qa"] * len(queries)
    encoder = load_encoder(tmp_path / "model", tmp_path, threads=1)
    asked = encoder.encode([layout.query_prefix("qa") + text for text in queries])
    expected = top_k(asked, encoder.encode(passages), 5)[0]
    texts = Queries(queries, intents, [str(number) for number in range(len(passages))])
    stored = encoder_of_version(version, tmp_path / "scratch")
    ranked = top_k(texts.encoded_by(stored), stored.encode_passages(passages), 5)[0]
    np.testing.assert_array_equal(ranked, expected)
    plain = top_k(encoder.encode(queries), encoder.encode(passages), 5)[0]
    assert np.array_equal(expected, plain) is not bool(instructed)


def test_several_builds_in_one_training_and_the_sampler_turns_from_the_wrong_one(store, good):
    guided = {"name": "inf_dds", "every": 3, "warmup_steps": 1, "target_batch": 24, "rate": 0.3}
    more = {"triplets_from": ("mtt/0.99",), "sampler": guided, "budget": 30, "pool_instruction": False}
    made = go(store, finetune, {"init": [str(good.ref)]}, **LEARNING, **more)
    assert made.counters["training_queries"] == 2 * len(TOPICS)
    last = "last(probability ORDER BY optimiser_step) AS likely, max(gradients) AS gradients"
    sql = f"SELECT source, {last} FROM sampling_trajectories WHERE version = ? GROUP BY source ORDER BY source"
    found = lineage.query(store, sql, [made.ref.version]).to_pylist()
    assert [row["source"] for row in found] == ["mtt/0.65", "mtt/0.99"]
    assert found[0]["likely"] > 0.6
    assert 30 - 3 < found[0]["gradients"] <= 30


def test_a_build_that_is_named_twice_is_learned_from_once(store, good):
    """As by the iterations of a schedule, which share further builds, and of which one has such a one for its own."""
    more = {"triplets_from": ("mtt/0.65", "mtt/0.99"), "sampler": "proportional"}
    made = go(store, finetune, {"init": [str(good.ref)]}, **SMALL, **more)
    assert made.counters["training_queries"] == 2 * len(TOPICS)
    sql = "SELECT source, probability FROM sampling_trajectories WHERE version = ? ORDER BY source"
    found = lineage.query(store, sql, [made.ref.version]).to_pylist()
    assert {row["source"]: row["probability"] for row in found} == {"mtt/0.65": 0.5, "mtt/0.99": 0.5}


def test_a_training_without_a_sampler_has_the_id_that_it_had_before_there_were_any(store):
    chosen = {}, {"sampler": "uniform"}, {"sampler": "uniform", "clusters": 4}
    plain, sampled, divided = (plan(store, finetune, SMALL | more).identity for more in chosen)
    new = {"unit", "clusters", "sampler", "targets", "budget", "triplets_from"}
    assert [new & known.keys() for known in (plain, sampled, divided)] == [set(), {"sampler"}, {"sampler", "clusters"}]


def test_a_mixture_of_intents_weighs_intents(store):
    refused = {"unit": "intent", "mixture": {"sts": 1}}
    with pytest.raises(InputError, match="leaves out qa and names sts"):
        go(store, finetune, **SMALL, **refused)
    made = go(store, finetune, **SMALL, unit="intent", mixture={"qa": 2})
    assert made.counters["optimiser_steps"] == 2
