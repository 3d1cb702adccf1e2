import pytest

from pipeline_tasks.core import runtime
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models import registry
from pipeline_tasks.models.use import REFERENCE_MODELS, identity, licences, models_needed, reference_models

INTENTS = ("qa", "qadoc", "twitter", "factcheck", "nli", "sts")


@pytest.fixture
def upgraded(monkeypatch):
    """Gives a package another version for one test; None takes it away."""

    def set_to(package: str, version: str | None) -> None:
        found = {name: number for name, number in runtime.installed().items() if name != package}
        monkeypatch.setattr(runtime, "installed", lambda: found | ({package: version} if version else {}))

    return set_to


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
    assert identity("all-minilm-l6-v2").keys() == {"name", "sha256", "texts", "libraries"}
    given(profile="hub")
    assert identity("linq-embed-mistral")["hub"].startswith("Linq-AI-Research/Linq-Embed-Mistral@0c1a0b05")
    assert licences("linq-embed-mistral", "bge-small-en-v1.5") == {
        "linq-embed-mistral": "CC-BY-NC-4.0",
        "bge-small-en-v1.5": "MIT",
    }


def test_another_tokenizer_library_gives_another_id(given, upgraded):
    given(profile="offline")
    before = identity("all-minilm-l6-v2")
    upgraded("tokenizers", "99.0")
    after = identity("all-minilm-l6-v2")
    assert (before | {"libraries": {"tokenizers": "99.0"}}) == after != before


def test_weights_in_int8_have_the_runtime_that_multiplies_them_in_their_id(given, upgraded):
    given(profile="offline")
    quantised, exact = "bge-small-en-v1.5", "all-minilm-l6-v2"
    before = {name: identity(name) for name in (quantised, exact)}
    upgraded("onnxruntime", "99.0")
    assert identity(quantised)["libraries"]["onnxruntime"] == "99.0"
    assert identity(exact) == before[exact]
    given(profile="hub", hub_revisions=f"{quantised}={'c' * 40}")
    assert "onnxruntime" not in identity(quantised)["libraries"]


def test_a_library_that_decides_an_id_and_is_not_installed_is_named(given, upgraded):
    given(profile="offline")
    upgraded("tokenizers", None)
    with pytest.raises(InputError, match=r"tokenizers.* not installed.*part of the version"):
        identity("all-minilm-l6-v2")
    given(served_models="all-minilm-l6-v2")
    assert "libraries" not in identity("all-minilm-l6-v2")


def test_how_texts_are_given_to_a_model_is_in_its_id(given, monkeypatch):
    given(profile="offline")
    before = identity("all-minilm-l6-v2")
    mended = registry.get("all-minilm-l6-v2").model_copy(update={"passage_prefix": "passage: "})
    monkeypatch.setattr("pipeline_tasks.models.use.get", lambda name: mended)
    assert identity("all-minilm-l6-v2") != before
