from __future__ import annotations

import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.curation.mine_negatives import MineNegativesParams, mine_negatives
from pipeline_tasks.curation.mutual_agreement import MutualAgreementParams
from pipeline_tasks.curation.score_triplets import ScoreTripletsParams
from pipeline_tasks.evaluation.evaluation_params import EvaluationParams
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.retrieval.fuse_rankings import FuseRankingsParams
from pipeline_tasks.retrieval.reference_models import default_best_models, default_models, default_panels

BEST = ("nv-embed-v2", "linq-embed-mistral", "sfr-embedding-mistral")


@pytest.fixture
def profile(monkeypatch):
    def choose(name: str) -> None:
        monkeypatch.setenv("FOUNDRY_PROFILE", name)
        settings.cache_clear()

    return choose


def test_offline_one_panel_judges_every_intent(profile):
    profile("offline")
    assert set(default_panels().values()) == {REFERENCE_MODELS}
    assert default_models() == REFERENCE_MODELS
    assert default_best_models() == REFERENCE_MODELS[:1]


def test_with_table_5_negatives_come_from_the_best_model_of_every_intent(profile):
    profile("hub")
    assert {panel[0] for panel in default_panels().values()} == set(default_best_models())
    assert default_best_models() == BEST


def test_all_steps_have_the_same_defaults(profile):
    profile("hub")
    assert MineNegativesParams().models == ScoreTripletsParams().models == BEST
    assert mine_negatives.reads["rankings"].defaults(MineNegativesParams()) == [f"rankings/{name}" for name in BEST]
    assert MutualAgreementParams().models == EvaluationParams().models == default_models()
    assert FuseRankingsParams().models == (*default_models(), "bm25")
    assert {panel[0] for panel in MutualAgreementParams().judges.values()} == set(BEST)
