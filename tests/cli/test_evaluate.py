"""``foundry evaluate``: any retriever on any set by one command, and whether the last training was worth it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline_tasks.cli.main import app
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest, resolve
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGE_EMBEDDINGS, PASSAGES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.evaluation import scores
from pipeline_tasks.evaluation.statistics import interval
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get
from pipeline_tasks.training.model.export import export
from tests import shapes
from tests.evaluation.test_judged_sets import folder
from tests.stores import put
from tests.training.made import put_model

TEXTS = {"1": "ta tb wa", "2": "tc wb", "3": "td te wc", "4": "tf wa wb"}
MODEL = "model/22m/finetune"


@dataclass
class Workplace:
    """A store with two versions of a model, and a judged set beside it."""

    store: LocalStore
    judged: str
    versions: list[str]

    def foundry(self, *arguments: str) -> str:
        """What ``foundry evaluate`` prints."""
        done = CliRunner().invoke(app, ["evaluate", *arguments])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "200")
    settings.cache_clear()
    store = LocalStore(tmp_path / "store")
    corpus = [{"_id": i, "text": text} for i, text in TEXTS.items()]
    queries = [{"_id": f"q{i}", "text": text.split()[0]} for i, text in TEXTS.items()]
    judged = folder(tmp_path / "My Set", corpus, queries, "".join(f"q{i}\t{i}\t1\n" for i in TEXTS))
    versions = []
    for pooling in ("cls", "mean"):
        made = tmp_path / pooling
        export(load(shapes.make("bert", tmp_path / "plain")), made, card={"name": pooling}, layout=Layout(pooling, 32))
        versions.append(str(put_model(store, made, MODEL, str(len(versions)) * 16)))
    return Workplace(store, judged, versions)


def test_the_new_model_against_the_last_one(workplace):
    told = workplace.foundry(MODEL, "--against", "last", "--on", workplace.judged, "--by-intent").splitlines()
    ids = [version.partition("@")[2] for version in workplace.versions]
    assert "4 queries of 1 intent" in told[0] and "any (4)" in "".join(told[:3])
    assert any(
        f"22m/finetune@{ids[1]} against 22m/finetune@{ids[0]}: no difference that could not be luck" in line
        for line in told
    )
    assert told[-1].startswith("eval/my-set@")


def test_the_last_one_is_of_the_same_alpha_where_a_training_goes_through_several(workplace):
    folder = Path(workplace.judged).parent / "mean"
    dataset = "model/33m/finetune"
    for version, alpha in enumerate((0.75, 0.85, 0.75, 0.85)):
        put_model(workplace.store, folder, dataset, f"{version:016}", alpha=alpha)
    told = workplace.foundry(dataset, "--against", "last", "--on", workplace.judged)
    assert f"@{3:016} against 33m/finetune-0.85@{1:016}: no difference" in told.replace("\n", " ")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["no-such-model"], "unknown model 'no-such-model'"),
        (["./nowhere"], "no model's folder"),
        (["model/22m/pretrain"], "model/22m/pretrain@latest is not in the store"),
        (["bm25", "--measure", "ndgc@10"], "ndgc@10"),
    ],
)
def test_what_is_no_system_is_told_before_anything_is_built(workplace, asked, said):
    with pytest.raises(InputError, match=said):
        workplace.foundry(*asked, "--on", workplace.judged)
    assert {key.split("/")[1] for key in workplace.store.keys("versions")} == {"model"}


def test_what_is_known_is_not_computed_again(workplace):
    one = workplace.foundry(f"rrf(bm25,{MODEL})", "bm25", MODEL, "--on", workplace.judged, "--measure", "mrr@3")
    before = {path: path.stat().st_mtime_ns for path in (workplace.store.root / "versions").rglob("*.json")}
    again = workplace.foundry(f"rrf(bm25,{MODEL})", "bm25", MODEL, "--on", "my-set", "--measure", "mrr@3")
    assert again == one and "mrr@3" in again
    assert {path: path.stat().st_mtime_ns for path in (workplace.store.root / "versions").rglob("*.json")} == before


def test_no_interval_is_drawn_that_nobody_sees(workplace, monkeypatch):
    drawn = []
    monkeypatch.setattr(scores, "interval", lambda *of: (drawn.append(of), interval(*of))[1])
    told = workplace.foundry("bm25", "--on", workplace.judged, "--measure", "ndcg@10", "--measure", "hit@1")
    assert "hit@1" in told and len(drawn) == 2, "of all queries, and of their one intent"


def test_vectors_of_what_a_model_was_before_are_not_asked_for_what_it_is_now(workplace):
    model = "all-minilm-l6-v2"
    fetch(get(model), settings().cache)
    workplace.foundry("bm25", "--on", workplace.judged)
    old = [{"passage_id": i, "embedding": [1.0] * 384} for i in TEXTS]
    passages = resolve(workplace.store, Ref.parse("corpus/my-set"))
    put(workplace.store, PASSAGE_EMBEDDINGS, old, dataset=f"embeddings/{model}", passages=passages)
    workplace.foundry(model, "--on", "my-set")
    assert "embeddings" not in load_manifest(workplace.store, Ref.parse("eval/my-set")).inputs


def test_held_out_queries_are_those_that_are_there_where_no_pairs_are(workplace):
    with pytest.raises(InputError, match="not in the store"):
        workplace.foundry("bm25", "--on", "heldout")
    passages = put(workplace.store, PASSAGES, [{"passage_id": i, "text": text} for i, text in TEXTS.items()])
    with pytest.raises(InputError, match="there are none"):
        workplace.foundry("bm25", "--on", "heldout")
    rows = [{"query_id": "q", "intent": "qa", "query": "ta", "passage_ids": ["1"], "grades": [1]}]
    put(workplace.store, JUDGED_QUERIES, rows, dataset="judged/heldout", passages=passages)
    assert workplace.foundry("bm25", "--on", "heldout").splitlines()[-1].startswith("eval/heldout@")


def test_every_measure_that_is_asked_for_is_shown(workplace):
    measures = [word for name in ("ndcg@10", "hit@1", "hit@4") for word in ("--measure", name)]
    table = workplace.foundry("bm25", "--on", workplace.judged, *measures).splitlines()
    shown = next(line for line in table if "system" in line).replace("┃", " ").split()
    assert shown == ["system", "ndcg@10", "95%", "hit@1", "hit@4"]
    assert next(line for line in table if "bm25" in line).replace("│", " ").split()[-2:] == ["1.000", "1.000"]


def test_what_of_a_set_is_not_scored_is_said_each_time(workplace):
    judged = Path(workplace.judged)
    for name, row in (("queries", {"_id": "q8", "text": " "}), ("queries", {"_id": "q9", "text": "whatever"})):
        (judged / f"{name}.jsonl").open("a").write("\n" + json.dumps(row))
    (judged / "corpus.jsonl").open("a").write("\n" + json.dumps({"_id": "1", "text": "once more"}))
    (judged / "qrels" / "test.tsv").open("a").write("q8\t1\t1\nq1\t99\t1\nq7\t1\t1\n")
    for _ in range(2):
        told = workplace.foundry("bm25", "--on", workplace.judged).splitlines()
        assert told[-3:-1] == [
            "left out of judged/my-set: blank_query 1, queries_unjudged 1, unknown_passage 1, unknown_query 1",
            "left out of corpus/my-set: duplicate_id 1",
        ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bm25", "--on", "no-such-set"), "judged/no-such-set"),
        (("bm25", "--on", "./no-such-folder"), "'./no-such-folder' is no folder"),
        (("bm25", "--on", "~no-such-user/set"), "'~no-such-user/set' is no folder"),
        (("bm25", "--against", "last"), "'bm25' is no version of ours"),
        ((f"{MODEL}@ffffffffffffffff", "--on", "SET"), "ffffffffffffffff"),
    ],
)
def test_what_is_not_there_is_named(workplace, arguments, message):
    with pytest.raises(InputError, match=message):
        workplace.foundry(*(workplace.judged if word == "SET" else word for word in arguments))


def test_instructions_of_a_set_are_made_by_rules_and_what_follows_them_is_told(workplace):
    qrels = Path(workplace.judged) / "qrels" / "test.tsv"
    qrels.write_text(qrels.read_text() + "q1\t4\t1\nq1\t3\t1\n")
    texts = {"1": "water sandbags", "2": "ashes", "3": "water pumps", "4": "water sandbags twice"}
    corpus = [json.dumps({"_id": name, "text": text}) for name, text in texts.items()]
    (Path(workplace.judged) / "corpus.jsonl").write_text("\n".join(corpus))
    told = workplace.foundry("bm25", MODEL, "--on", workplace.judged, "--instructions")
    assert all(name in told for name in ("p-mrr", "ndcg@5", "map@1000", "3 queries"))
    assert told.splitlines()[-1].startswith("eval/my-set-instructions@")
    assert workplace.foundry("bm25", MODEL, "--on", "my-set", "--instructions") == told


def test_instructions_of_a_folder_are_not_asked_of_a_newer_corpus(workplace):
    judged = Path(workplace.judged)
    asked = [json.dumps({"_id": name, "text": "ta"}) for name in ("q-og", "q-changed")]
    (judged / "queries.jsonl").write_text("\n".join(asked))
    (judged / "qrels" / "test.tsv").write_text("q-og\t1\t1\nq-og\t3\t1\nq-changed\t1\t0\nq-changed\t3\t1\n")
    instructed = [json.dumps({"query-id": name, "instruction": name}) for name in ("q-og", "q-changed")]
    (judged / "instruction.jsonl").write_text("\n".join(instructed))
    first = workplace.foundry("bm25", "--on", workplace.judged, "--instructions")
    assert workplace.foundry("bm25", "--on", "my-set", "--instructions") == first
    workplace.foundry("bm25", "--on", workplace.judged, "--with-title")
    assert "p-mrr" in workplace.foundry("bm25", "--on", "my-set", "--instructions"), (
        "the same rows, as none has a title"
    )
    (judged / "corpus.jsonl").open("a").write("\n" + json.dumps({"_id": "5", "text": "ta once more"}))
    workplace.foundry("bm25", "--on", workplace.judged)
    with pytest.raises(InputError, match="instructed/my-set@.* of a folder for corpus/my-set@.*: name that folder"):
        workplace.foundry("bm25", "--on", "my-set", "--instructions")
    again = workplace.foundry("bm25", "--on", workplace.judged, "--instructions")
    assert workplace.foundry("bm25", "--on", "my-set", "--instructions") == again != first
