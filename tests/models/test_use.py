import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.use import REFERENCE_MODELS, identity, licences, models_needed, reference_models

INTENTS = ("qa", "qadoc", "twitter", "factcheck", "nli", "sts")


@pytest.fixture
def given(monkeypatch):
    """Sets settings for one test."""

    def set_to(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(f"FOUNDRY_{name.upper()}", value)
        settings.cache_clear()

    yield set_to
    settings.cache_clear()


def test_without_a_hub_the_three_that_packages_hold_judge_every_intent(given):
    given(profile="offline")
    assert {reference_models(intent) for intent in INTENTS} == {REFERENCE_MODELS}
    assert models_needed(INTENTS) == REFERENCE_MODELS


def test_with_a_hub_the_table_of_the_paper_decides(given):
    given(profile="hub")
    assert reference_models("twitter") == ("sfr-embedding-mistral", "inf-retriever-v1", "linq-embed-mistral")
    assert len(models_needed(INTENTS)) == 7
    assert models_needed(["qa", "qadoc"])[:3] == reference_models("qa")


def test_an_assignment_can_be_chosen(given):
    given(profile="hub", assignment="offline")
    assert reference_models("nli") == REFERENCE_MODELS
    given(assignment="mine")
    with pytest.raises(InputError, match="unknown assignment 'mine'"):
        reference_models("nli")


def test_identity_says_which_weights_and_licences_whose(given):
    given(profile="offline")
    assert identity("all-minilm-l6-v2").keys() == {"name", "sha256"}
    given(profile="hub")
    assert identity("linq-embed-mistral")["hub"].startswith("Linq-AI-Research/Linq-Embed-Mistral@0c1a0b05")
    assert licences("linq-embed-mistral", "bge-small-en-v1.5") == {
        "linq-embed-mistral": "CC-BY-NC-4.0",
        "bge-small-en-v1.5": "MIT",
    }
