"""Judges of nearest passages where requests fail, money ends or the process is killed: the same rows, paid for once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.faulty_llm import PRICE_IN, PRICE_OUT
from benchmarks.scoring_llm import ScoringLLM
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.paid.endpoint import pace
from pipeline_tasks.core.paid.spending import LimitReached
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.grade_passages import grade_passages
from pipeline_tasks.curation.relabel import relabel
from pipeline_tasks.curation.rerank_passages import rerank_passages
from pipeline_tasks.curation.score_passages import score_passages
from pipeline_tasks.synthesis.llm.client import SHORT
from tests import small_reranker
from tests.curation import small_scorer
from tests.curation.compared import filled
from tests.forked import forked
from tests.stores import go, rejects

ASKED = {"llm": "m", "concurrency": 4}
OF_ENDPOINTS = [(score_passages, ASKED), (grade_passages, ASKED | {"api": "chat"})]
PAIRS_OF_PARTS = (6, 4)
"""Passages that are compared in the parts of the nearest passages."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Pauses that nobody asked for are short."""
    monkeypatch.setattr(pace, "_FIRST_PAUSE_S", 0.01)


@pytest.fixture
def at(monkeypatch):
    """Starts a stand-in, points the settings at it, and ends it with the block."""

    @contextmanager
    def serving(there: ScoringLLM) -> Iterator[ScoringLLM]:
        with there:
            monkeypatch.setenv("OPENAI_BASE_URL", there.url)
            monkeypatch.setenv("FOUNDRY_LLM_PRICE_IN", str(PRICE_IN))
            monkeypatch.setenv("FOUNDRY_LLM_PRICE_OUT", str(PRICE_OUT))
            settings.cache_clear()
            yield there

    return serving


def made(store: LocalStore, dataset: str) -> list[str]:
    manifest = Version.open(store, Ref.parse(dataset)).manifest
    return [part.sha256 for part in (*manifest.parts, *manifest.rejects)]


@pytest.mark.parametrize(("step", "values"), OF_ENDPOINTS, ids=lambda one: getattr(one, "name", ""))
def test_faults_and_an_empty_budget_change_no_row_and_buy_nothing_twice(tmp_path, at, step: Step, values):
    calm, store = (filled(tmp_path / name) for name in ("calm", "store"))
    with at(ScoringLLM(0.5, calm=True)) as there:
        wanted = go(calm, step, **values).ref
        needed, usd = set(there.billed), there.usd
    with at(ScoringLLM(0.5, retry_after_s=0.01)) as there:
        there.faults = ("http_429", "http_500", "cut", "schema")
        # A request is counted at its worst before it is sent, and at that these few hardly differ from the whole bill.
        with pytest.raises(LimitReached, match=r"max_run_usd=\S+ is spent; raise max_run_usd.*to go on: foundry run"):
            go(store, step, **values | {"concurrency": 1, "max_run_usd": 0.6 * usd + 0.006})
        assert 0 < there.usd < usd and 0 < len(there.billed) < len(needed)
        assert go(store, step, **values, max_run_usd="none").ref == wanted
        assert set(there.billed) == needed and set(there.billed.values()) == {1}
        assert sum(there.met.values()) > 0
    assert made(store, wanted.dataset) == made(calm, wanted.dataset)


def test_what_is_left_of_a_resumed_run_may_be_refused_by_a_model_without_a_first_token(tmp_path, at):
    """Its endpoint is asked whether it accepts anything, and of one token's echo it could tell no log-probability."""
    store = filled(tmp_path / "store")
    with at(ScoringLLM(0.5, calm=True)) as there:
        there.draw = lambda key, _: "http_400" if key == refused and there.prompts[-1] != SHORT else ""
        refused = ""
        go(store, score_passages, **ASKED)
        refused = next(iter(there.billed))
        store.delete(f"responses/{refused[:2]}/{refused}.json")
        go(store, score_passages, **ASKED, again="now")
        assert SHORT in there.prompts
    assert [row["reason"] for row in rejects(store, "relabelled/scored").values()].count("llm_refused_request") == 1


def in_child(root: Path, step: Step, values: dict[str, Any], counted: Path, kill_at: int) -> None:
    """Run a judge that notes how many passages its model has scored; killed once it has in its n-th part."""
    from pipeline_tasks.curation.causal_scorer import CausalScorer
    from pipeline_tasks.retrieval.cross_encoder import CrossEncoder

    def noting(real: Any) -> Any:
        def scored(self: Any, *given: Any) -> np.ndarray:
            found = real(self, *given)
            with counted.open("a") as file:
                file.write(f"{len(found)}\n")
            if len(counted.read_text().split()) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return scored

    CausalScorer.label_log_probs = noting(CausalScorer.label_log_probs)  # type: ignore[method-assign]
    CrossEncoder.scores = noting(CrossEncoder.scores)  # type: ignore[method-assign]
    go(LocalStore(root), step, **values)


def in_process(*given: Any) -> int | None:
    process = forked().Process(target=in_child, args=given)
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("step", [relabel, rerank_passages], ids=lambda one: one.name)
def test_a_judge_that_is_killed_here_scores_one_part_again_at_most(tmp_path, step: Step):
    if step is relabel:
        values: dict[str, Any] = {"scorer": str(small_scorer.make(tmp_path / "model"))}
    else:
        values = {"reranker": str(small_reranker.make(tmp_path / "model")), "max_length": 64}
    calm, store, counted = filled(tmp_path / "calm"), filled(tmp_path / "store"), tmp_path / "counted"
    wanted = go(calm, step, **values).ref
    assert in_process(store.root, step, values, counted, 2) == -signal.SIGKILL
    assert not list(store.keys(f"versions/{wanted.dataset}")) and len(list(store.keys("memo"))) == 1
    assert in_process(store.root, step, values, counted, 0) == 0
    assert list(map(int, counted.read_text().split())) == [*PAIRS_OF_PARTS, PAIRS_OF_PARTS[1]]
    assert made(store, wanted.dataset) == made(calm, wanted.dataset)
