"""mteb scores similarity and classification of our files with our models, told a task on both sides or not."""

from __future__ import annotations

import json

import mteb
import numpy as np
import pytest
from scipy.stats import spearmanr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.evaluation.mteb_files import classification_task, similarity_task
from pipeline_tasks.evaluation.mteb_task import MtebModel, model_of
from pipeline_tasks.evaluation.systems import encoder_of_folder
from pipeline_tasks.training.model.export import export
from tests import shapes

WORDS = [*shapes.TOPICS, *shapes.FILLERS]
TASK = f"{WORDS[3]} {WORDS[20]}"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    layout = Layout("mean", 32, prefixes={"query": "wa ", "passage": "ba "})
    export(load(shapes.make("bert", folder / "plain")), folder / "m", card={"name": "Tiny"}, layout=layout)
    return str(folder / "m")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_CACHE", str(tmp_path / "cache"))
    settings.cache_clear()


def written(path, rows: list[dict]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return str(path)


def scored(model: MtebModel, task) -> dict:
    found = mteb.evaluate(model, [task], cache=None, show_progress_bar=False)
    return found.task_results[0].scores["test"][0]


def pairs(n: int = 30) -> list[dict]:
    """Sentences of two words each, and scores that are no order of theirs."""
    return [
        {
            "sentence1": f"{WORDS[i]} {WORDS[(3 * i + 1) % 36]}",
            "sentence2": f"{WORDS[i if i % 2 else (i + 5) % 36]} {WORDS[(7 * i + 2) % 36]}",
            "score": (i % 2) * 50 + (7 * i) % 11,
        }
        for i in range(n)
    ]


@pytest.mark.parametrize("task", ["", TASK])
def test_similarity_is_the_correlation_of_ranks_of_our_cosines(tmp_path, model, task):
    made, encoder = pairs(), encoder_of_folder(model)
    texts = [[row[side] for row in made] for side in ("sentence1", "sentence2")]
    before = f"wa {task}: " if task else "ba "
    one, other = (encoder.encode([before + text for text in side]) for side in texts)
    rho = spearmanr([row["score"] for row in made], (one * other).sum(axis=1)).statistic
    written(tmp_path / "sts" / "test.jsonl", made)
    for source in (tmp_path / "sts", tmp_path / "sts" / "test.jsonl"):
        theirs = scored(model_of(LocalStore(tmp_path / "store"), model, task), similarity_task(source, "mine"))
        assert theirs["main_score"] == theirs["cosine_spearman"] == pytest.approx(rho, abs=1e-6)
    assert 0.05 < abs(rho) < 0.95, "an order that can be missed"


def test_results_with_a_task_are_filed_apart(model):
    plain, told, other = (MtebModel(encoder_of_folder(model), "r1", task) for task in ("", TASK, "ka"))
    revisions = [each.mteb_model_meta.revision for each in (plain, told, other)]
    assert revisions[0] == "r1" and len(set(revisions)) == 3


def test_queries_are_told_the_task_and_passages_are_not(model):
    encoder = encoder_of_folder(model)
    told, texts = MtebModel(encoder, "", TASK), [{"text": [WORDS[0], WORDS[1]]}]
    wanted = {"query": f"wa {TASK}: ", "document": "ba ", None: f"wa {TASK}: "}
    for side, before in wanted.items():
        expected = encoder.encode([before + text for text in WORDS[:2]])
        np.testing.assert_allclose(told.encode(texts, prompt_type=side), expected, atol=1e-6)


def labelled(labels: list, start: int, n: int) -> list[dict]:
    """Texts that begin with the word of their label, twice."""
    of = [(i % len(labels), i) for i in range(start, start + n)]
    return [{"text": f"{WORDS[k]} {WORDS[k]} {WORDS[10 + i % 26]}", "label": labels[k]} for k, i in of]


def test_classes_are_learned_from_vectors_of_a_few_texts(tmp_path, model):
    found = {}
    for name, labels in {"words": ["fire", "flood", "storm"], "numbers": [0, 1, 2], "same": ["a", "b", "a"]}.items():
        written(tmp_path / name / "train.jsonl", labelled(labels, 0, 60))
        written(tmp_path / name / "test.jsonl", labelled(labels, 60, 30))
        mine = model_of(LocalStore(tmp_path / "store"), model)
        found[name] = scored(mine, classification_task(tmp_path / name, name))
    assert found["words"]["main_score"] == found["words"]["accuracy"] > 0.9
    assert found["words"]["accuracy"] == found["numbers"]["accuracy"]
    assert found["same"]["ap"] > 0, "of two labels mteb tells the average precision"
    turned = [row | {"label": ["fire", "flood", "storm"][n % 2]} for n, row in enumerate(labelled([0, 1, 2], 60, 30))]
    turned[-1]["label"] = "storm"
    written(tmp_path / "words" / "test.jsonl", turned)
    wrong = scored(mine, classification_task(tmp_path / "words", "words"))
    assert wrong["accuracy"] < 0.6, "labels that say nothing of the texts cannot be learned"


def test_files_that_are_no_task_are_the_callers_mistake(tmp_path):
    good = pairs(3)
    refused = {
        "test.jsonl, line 2 has no 'sentence2'": [good[0], good[1] | {"sentence2": " "}],
        "line 1 has the score '4'": [good[0] | {"score": "4"}],
        "line 1 has the score 1000": [good[0] | {"score": 10**400}],
        "has 1 different scores": [good[0], good[0]],
    }
    for message, rows in refused.items():
        with pytest.raises(InputError, match=message):
            similarity_task(written(tmp_path / "sts" / "test.jsonl", rows), "mine")
    (tmp_path / "sts" / "test.jsonl").write_text("[]\n")
    with pytest.raises(InputError, match=r"line 1 is no object but '\[\]'"):
        similarity_task(tmp_path / "sts", "mine")
    (tmp_path / "sts" / "test.jsonl").write_text("{\n")
    with pytest.raises(InputError, match="line 1 is not JSON"):
        similarity_task(tmp_path / "sts", "mine")
    (tmp_path / "sts" / "test.jsonl").write_bytes("é".encode("latin-1"))
    with pytest.raises(InputError, match="test.jsonl cannot be read"):
        similarity_task(tmp_path / "sts", "mine")
    with pytest.raises(InputError, match=r"there is no .*train\.jsonl"):
        classification_task(tmp_path / "sts", "mine")
    written(tmp_path / "sts" / "train.jsonl", labelled(["a", "b"], 0, 4))
    written(tmp_path / "sts" / "test.jsonl", labelled(["a", "c"], 0, 4))
    with pytest.raises(InputError, match="are to have the same labels"):
        classification_task(tmp_path / "sts", "mine")
