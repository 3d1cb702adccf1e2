"""Whatever ranks, an answer tells where its passages are from and what was made of them."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from pipeline_tasks.ask.answers import answer
from pipeline_tasks.ask.catalog import best_first
from pipeline_tasks.ask.corpus import open_corpus
from pipeline_tasks.ask.systems import open_system
from pipeline_tasks.cli.ask import why
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.lineage.query import MAX_ROWS
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.uses import MOST, uses
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest, manifest_key
from pipeline_tasks.datasets import PASSAGES, TRIPLETS
from pipeline_tasks.retrieval.embed_passages import embed_passages
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.texts.sentences import sentences
from tests.ask.conftest import TEXTS, put_model
from tests.retrieval.tiny import decoder
from tests.stores import go, put


def test_a_passage_tells_its_pages_and_what_it_was_used_for(corpus, reader):
    found = answer(corpus, reader, [open_system("bm25", corpus)], "is the flood on the road", "qa", 3)
    (column,) = found.columns
    assert [hit.passage_id for hit in column.hits][0] == "p-flood" and column.hits[0].score > column.hits[1].score
    assert column.hits[0].quote == "A road under flood water may be gone."
    shown = found.passages["p-flood"]
    assert (shown["title"], shown["url"]) == ("About flood", "https://example.org/flood.pdf")
    assert (shown["page"], shown["last_page"], shown["split"]) == (2, 3, "train")
    assert [row["query_id"] for row in shown["uses"]["written"]["rows"]] == ["q-flood"]
    (agreed,) = shown["uses"]["agreed"]["rows"]
    assert [(vote["model"], vote["rank"]) for vote in agreed["votes"]] == [("alpha", 1)]
    assert shown["uses"]["positive"] == {
        "n": 1,
        "of": ["mtt/0.75"],
        "rows": [{"dataset": "mtt/0.75", "query_id": "q-flood", "query": "is the road safe?"}],
    }
    assert found.passages["p-storm"]["uses"]["negative"]["rows"][0]["score"] == pytest.approx(0.4)
    assert json.loads(json.dumps(asdict(found)))["corpus"] == str(corpus.manifest.ref)


@pytest.mark.parametrize("error", [InputError("the query took more than 30 s"), TransientError("others are answered")])
def test_passages_are_shown_where_their_uses_cannot_be_found(corpus, reader, monkeypatch, error):
    def fails(*_):
        raise error

    monkeypatch.setattr("pipeline_tasks.ask.answers.uses", fails)
    found = answer(corpus, reader, [open_system("model/22m/finetune", corpus)], "flood on the road", "qa", 3)
    assert len(found.columns[0].hits) == 3 and not any(hit.seen for hit in found.columns[0].hits)
    shown = found.passages["p-flood"]
    assert shown["last_page"] == 3 and {use["n"] for use in shown["uses"].values()} == {0}
    assert found.note == f"what was made of these passages is not known: {error}"
    assert why(shown, is_known=not found.note) == "uses not known"


def test_only_the_model_that_trained_on_a_passage_is_said_to_have_seen_it(corpus, reader):
    systems = [open_system(name, corpus) for name in ("model/22m/finetune", "bm25")]
    trained, words = answer(corpus, reader, systems, "flood on the road to the camp", "qa", 5).columns
    seen = {hit.passage_id: hit.seen for hit in trained.hits}
    assert seen["p-flood"] == ("source", "positive") and seen["p-storm"] == ("negative",) and seen["p-test"] == ()
    assert [ref.partition("@")[0] for ref in trained.trained_on] == ["mtt/0.75", "mtp"]
    assert not any(hit.seen for hit in words.hits) and words.trained_on == ()


def test_what_shares_no_word_with_the_question_is_no_answer_of_bm25(corpus, reader):
    found = answer(corpus, reader, [open_system("bm25", corpus)], "quantum chromodynamics", "qa", 5)
    assert found.columns[0].hits == () and found.passages == {}


@pytest.mark.parametrize(
    ("question", "intent", "most", "said"),
    [
        (" \n", "qa", 5, "blank"),
        ("x" * 2001, "qa", 5, "2,001 characters"),
        ("why", "poem", 5, "no intent"),
        ("why", "qa", 0, "1 to 50"),
    ],
)
def test_what_cannot_be_asked_is_refused(corpus, reader, question, intent, most, said):
    with pytest.raises(InputError, match=said):
        answer(corpus, reader, [open_system("bm25", corpus)], question, intent, most)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-such-model", "unknown model"),
        ("model/22m/pretrain", "model/22m/pretrain"),
        ("./nowhere", "no model's folder"),
        ("rrf(bm25", "cannot be read"),
        ("rrf(bm25, bm25)", "has 'bm25' more than once: name it once"),
    ],
)
def test_a_system_that_is_none_is_named(corpus, name, said):
    with pytest.raises(InputError, match=said):
        open_system(name, corpus)


def test_only_passages_can_be_asked(store):
    with pytest.raises(InputError, match="name passages"):
        open_corpus(store, Ref.parse("mtp"))
    put(store, PASSAGES, [], dataset="nothing")
    with pytest.raises(InputError, match="holds no passage"):
        open_corpus(store, Ref.parse("nothing"))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many passages each call encodes from now on."""
    calls, encode = [], Encoder.encode_passages
    monkeypatch.setattr(
        Encoder, "encode_passages", lambda self, texts, **kw: (calls.append(len(texts)), encode(self, texts, **kw))[1]
    )
    return calls


def test_a_trained_model_encodes_the_corpus_once_and_another_version_anew(store, corpus, monkeypatch, tmp_path):
    calls = counted(monkeypatch)
    first = open_system("model/22m/finetune", corpus).search(["water"], ["qa"], 5)
    again = open_system("model/22m/finetune@0123456789abcdef", corpus).search(["water"], ["qa"], 5)
    assert calls == [len(TEXTS)] and all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    put_model(
        store, decoder(tmp_path / "other", pooling="mean"), load_manifest(store, Ref.parse("mtt/0.75")).ref, "f" * 16
    )
    other = open_system("model/22m/finetune", corpus).search(["water"], ["qa"], 5)
    assert calls == [len(TEXTS)] * 2 and not np.array_equal(first[1], other[1])


def test_a_version_that_was_dropped_and_trained_again_encodes_the_corpus_anew(store, corpus, monkeypatch, tmp_path):
    calls = counted(monkeypatch)
    before = open_system("model/22m/finetune", corpus).search(["water"], ["qa"], 5)
    ref, triplets = (load_manifest(store, Ref.parse(name)).ref for name in ("model/22m/finetune", "mtt/0.75"))
    store.delete(manifest_key(ref))
    assert put_model(store, decoder(tmp_path / "other", pooling="mean"), triplets) == ref
    now = open_system("model/22m/finetune", corpus).search(["water"], ["qa"], 5)
    assert calls == [len(TEXTS)] * 2 and not np.array_equal(before[1], now[1])


def test_vectors_of_rows_that_were_erased_are_not_used(store, corpus, monkeypatch):
    calls = counted(monkeypatch)
    open_system("model/22m/finetune", corpus)
    fewer = corpus.manifest.model_copy(update={"parts": corpus.manifest.parts[:1], "rows": 3, "erased": ["e"]})
    store.replace(f"versions/passages/{fewer.id}.json", fewer.to_bytes())
    left = open_corpus(store, Ref.parse("passages"))
    places, _ = open_system("model/22m/finetune", left).search(["water"], ["qa"], 5)
    assert calls == [5, 3] and sorted(places[0]) == [0, 1, 2]


def test_a_folder_is_asked_as_its_files_say(corpus, tmp_path, monkeypatch):
    calls = counted(monkeypatch)
    names = [str(tmp_path / "model"), str(tmp_path / "model")]
    one, two = (open_system(name, corpus).search(["flood water"], ["qa"], 5) for name in names)
    assert calls == [5] and np.array_equal(one[0], two[0])


def test_stored_vectors_of_these_passages_are_taken(store, corpus, reader, monkeypatch):
    go(store, embed_passages, model="all-minilm-l6-v2")
    assert best_first(corpus, reader) == ["model/22m/finetune", "all-minilm-l6-v2", "bm25"]
    calls = counted(monkeypatch)
    places, _ = open_system("all-minilm-l6-v2", corpus).search(["how long must I boil what I drink?"], ["qa"], 5)
    assert corpus.rows["passage_id"][int(places[0][0])].as_py() == "p-trap" and calls == []
    other = put(store, PASSAGES, [{"passage_id": "p-new", "doc_id": "d", "text": "A new text."}])
    open_system("all-minilm-l6-v2", open_corpus(store, other))
    assert calls == [1]


def test_a_fusion_ranks_by_its_members_alone(corpus):
    names = ("bm25", "model/22m/finetune", "rrf(bm25,model/22m/finetune)")
    words, trained, fused = (open_system(name, corpus).search(["flood water"], ["qa"], 5) for name in names)
    ranks = [{place: rank for rank, place in enumerate(found[0][0], 1) if place >= 0} for found in (words, trained)]
    assert len(ranks[0]) < len(ranks[1]) == 5, "BM25 finds nothing that shares no word"
    sums = {p: sum(1 / (60 + found[p]) for found in ranks if p in found) for p in range(5)}
    assert list(fused[0][0]) == sorted(sums, key=lambda place: (-sums[place], place))


def test_a_fusion_asks_its_members_for_as_many_ranks_however_many_are_shown(corpus, monkeypatch):
    monkeypatch.setattr("pipeline_tasks.ask.systems.FUSED_DEPTH", 2)
    fused = open_system("rrf(bm25,model/22m/finetune)", corpus)
    (few, _), (all_of_them, _) = (fused.search(["flood water"], ["qa"], k) for k in (2, 5))
    assert list(few[0]) == list(all_of_them[0][:2])
    assert 2 <= sum(all_of_them[0] >= 0) <= 4, "two members have two each"


def test_a_sentence_is_quoted_as_it_stands():
    text = "Heading\n\n· Boil the water for ten minutes. Then let it cool.\n2. Drink 3.5 litres a day, no less!"
    assert sentences(text) == ["Boil the water for ten minutes.", "Drink 3.5 litres a day, no less!"]
    assert all(sentence in text for sentence in sentences(text))


def test_no_number_of_uses_hides_the_rest(tmp_path):
    store = LocalStore(tmp_path)
    for dataset, n in (("mtt/0.65", MAX_ROWS + 1), ("mtt/0.95", 7)):
        triplet = {"query": "x", "positive_id": "p", "negative_ids": ["hub"], "negatives": ["t"]}
        more = {"negative_scores": [0.1], "split": "train"}
        put(store, TRIPLETS, [triplet | more | {"query_id": f"q{i:06}"} for i in range(n)], dataset=dataset)
    found = uses(Reader(store), ["hub"])["hub"]["negative"]
    assert (found["n"], found["of"]) == (MAX_ROWS + 8, ["mtt/0.65", "mtt/0.95"])
    assert [row["query_id"] for row in found["rows"]] == [f"q{i:06}" for i in range(MOST)]
