"""What rankings and evaluations are known by: the files of a folder, the name that it is shown by, the libraries."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.runtime import installed
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from pipeline_tasks.evaluation.evaluation_params import EvaluationParams
from pipeline_tasks.evaluation.rank_systems import _systems
from pipeline_tasks.evaluation.scores import scores_of
from pipeline_tasks.evaluation.systems import encoder_of_folder, members_among
from pipeline_tasks.retrieval.encoder import Encoder
from tests import shapes
from tests.stores import go, put

ALONE = {"size": "", "models": (), "systems": ("bm25",)}
TEXTS = {"p1": "a tornado takes the roof", "p2": "smoke fills the valley", "p3": "sandbags against the flood"}

RANKED_LAST = np.array([[2]])
INSTALLED = installed()


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [{"passage_id": i, "text": text} for i, text in TEXTS.items()])
    asked = {"query_id": "q", "query": "tornado roof", "intent": "qa", "passage_ids": ["p1"], "grades": [1]}
    put(store, JUDGED_QUERIES, [asked], dataset="judged/heldout")
    return store


def evaluated(store: LocalStore, *names: str) -> Version:
    made = go(store, evaluate_retriever, {"models": []}, **ALONE | {"systems": names})
    return Version.open(store, made.ref)


def identity(*names: str) -> dict:
    return EvaluationParams(**ALONE | {"systems": names}).identity()


def test_a_folder_is_known_by_its_files_and_by_the_name_that_its_rows_have(store, tmp_path):
    first = str(shapes.make("bert", tmp_path / "one"))
    version = evaluated(store, first, f"rrf({first})", "bm25")
    assert [name for name in scores_of(version).table if "rrf" in name] == [f"rrf({first})"]
    before = identity(first)
    assert before == identity(first)
    moved = str((tmp_path / "one").rename(tmp_path / "two"))
    assert identity(moved) != before, "its rows would be called by a path that nobody asked for"
    before = identity(moved)
    (tmp_path / "two" / "config.json").write_text((tmp_path / "two" / "config.json").read_text() + "\n")
    assert before != identity(moved), "other files, another version"


def test_a_fusion_of_what_is_not_asked_for_is_refused_before_anything_is_encoded(store, tmp_path):
    folder = str(shapes.make("bert", tmp_path / "one"))
    for fusion, said in ((f"rrf({folder},n)", "fuses 'n', which is not among"), ("rrf(bm25,bm25)", "more than once")):
        with pytest.raises(InputError, match=said):
            evaluated(store, folder, fusion)
    assert not list(store.keys("memo"))


def test_a_trained_version_in_a_fusion_goes_by_its_name_in_the_rows_or_by_its_own():
    known = {"bm25": "", "22m/finetune-0.95": "model/22m/finetune@a1"}
    for member in ("22m/finetune-0.95", "model/22m/finetune", "model/22m/finetune@a1"):
        assert members_among(f"rrf(bm25,{member})", known) == [*known]
    with pytest.raises(InputError, match="has '22m/finetune-0.95' more than once: name it once"):
        members_among("rrf(22m/finetune-0.95,model/22m/finetune)", known)
    for member in ("model/22m/finetune@b2", ""):
        with pytest.raises(InputError, match="which is not among"):
            members_among(f"rrf(bm25,{member})", known)
    with pytest.raises(InputError, match=r"is several of the systems asked for \(.*\): name one"):
        members_among("rrf(bm25,model/22m/finetune)", known | {"22m/finetune-0.85": "model/22m/finetune@b2"})


def test_a_folder_elsewhere_has_its_own_rows_and_is_not_ranked_again(store, tmp_path):
    """As of two folders that change places, whose scores must do so, too."""
    one, two = tmp_path / "one", tmp_path / "two"
    shapes.make("bert", one)
    evaluated(store, str(one), "bm25")
    shutil.copytree(one, two)
    made = go(store, evaluate_retriever, {"models": []}, **ALONE | {"systems": (str(two), "bm25")})
    assert made.counters["partitions_reused"] == 3, "both rankings, and the scores of BM25"
    found = scores_of(Version.open(store, made.ref)).by_system
    assert found.keys() == {str(two), "bm25"}
    both = scores_of(evaluated(store, str(one), str(two))).by_system
    assert both[str(one)] == both[str(two)] == found[str(two)]


def test_rankings_of_another_bm25s_are_others_and_so_are_fusions_of_them(store, monkeypatch):
    names = ("bm25", "rrf(bm25)")
    first = evaluated(store, *names).manifest
    monkeypatch.setattr("pipeline_tasks.core.runtime.installed", lambda: INSTALLED | {"bm25s": "0.0.1"})
    monkeypatch.setattr("pipeline_tasks.evaluation.systems.Queries.rank_bm25", lambda *_: RANKED_LAST)
    other = evaluated(store, *names)
    assert other.manifest.id != first.id
    assert {row["system"]: row["passage_ids"] for row in other.table().to_pylist()} == dict.fromkeys(names, ["p3"])


@pytest.mark.parametrize("library", ["tokenizers", "onnxruntime"])
@pytest.mark.parametrize("has_graph", [False, True])
def test_a_folder_is_ranked_anew_by_another_library_that_runs_it(tmp_path, monkeypatch, library, has_graph):
    (tmp_path / "config.json").write_text("{}")
    if has_graph:
        (tmp_path / "model.onnx").write_bytes(b"graph")
    found = []
    for version in ("0.0.1", "0.0.2"):
        monkeypatch.setattr("pipeline_tasks.core.runtime.installed", lambda v=version: INSTALLED | {library: v})
        (system,) = _systems(Inputs({}), EvaluationParams(**ALONE | {"systems": (str(tmp_path),)}))
        found.append(system.decided_by)
    assert (found[0] != found[1]) is (has_graph or library == "tokenizers")


def test_a_trained_version_is_ranked_and_evaluated_anew_by_other_tokenizers(store, monkeypatch):
    model = Version.open(store, put(store, PASSAGES, [], dataset="model/33m/pretrain"))
    found = []
    for version in ("0.0.1", "0.0.2"):
        monkeypatch.setattr("pipeline_tasks.core.runtime.installed", lambda v=version: INSTALLED | {"tokenizers": v})
        params = EvaluationParams(**ALONE)
        (system,) = (one for one in _systems(Inputs({"models": [model]}), params) if one.kind == "version")
        found.append((params.identity(), system.decided_by))
    (id_before, decided_before), (id_after, decided_after) = found
    assert id_before != id_after and decided_before != decided_after


def test_a_folder_that_changes_while_it_is_evaluated_is_an_error_and_nothing_is_kept_of_it(
    store, tmp_path, monkeypatch
):
    config = shapes.make("bert", tmp_path / "one") / "config.json"
    whole = config.read_text()
    name, changed = str(config.parent), f"{config.parent}' changed since this run began: start the run again"

    def changing(name: str) -> Encoder:
        """The encoder of what another training writes to at this moment."""
        config.write_text(whole + "\n")
        return encoder_of_folder(name)

    with monkeypatch.context() as meanwhile, pytest.raises(InputError, match=changed):
        meanwhile.setattr("pipeline_tasks.evaluation.systems.encoder_of_folder", changing)
        evaluated(store, name)
    config.write_text(whole)
    planned = plan(store, evaluate_retriever, ALONE | {"systems": (name,)}, {"models": []})
    config.write_text(whole + "\n")
    with pytest.raises(InputError, match=changed):
        run_job(store, planned)
    config.write_text(whole)
    assert list(scores_of(evaluated(store, name)).by_system) == [name]
