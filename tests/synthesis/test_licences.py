"""The licence of the LLM travels with what it wrote, and changes no version's name."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.models.use import LLM
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from pipeline_tasks.synthesis.write_needs import write_needs
from pipeline_tasks.synthesis.write_pairs import write_pairs
from tests.stores import go, put


@pytest.fixture
def store(tmp_path) -> LocalStore:
    """No passage, so that nobody is asked."""
    store = LocalStore(tmp_path)
    put(store, PASSAGES, [])
    return store


@pytest.fixture
def told(monkeypatch):
    """Set what the settings say."""

    def tell(licence: str, allow: str = "true") -> None:
        monkeypatch.setenv("FOUNDRY_LLM_LICENCE", licence)
        monkeypatch.setenv("FOUNDRY_ALLOW_NONCOMMERCIAL", allow)
        settings.cache_clear()

    return tell


@pytest.mark.parametrize(
    ("llm", "setting", "expected"),
    [
        (LLM, "", {LLM: "Apache-2.0"}),
        (LLM, "CC-BY-NC-4.0", {LLM: "CC-BY-NC-4.0"}),
        ("of-the-endpoint", "", {}),
        ("of-the-endpoint", "its terms", {"of-the-endpoint": "its terms"}),
    ],
)
def test_it_is_in_the_manifests_of_what_was_written_and_made_of_it(store, told, llm, setting, expected):
    told(setting)
    go(store, write_needs, llm=llm)
    go(store, write_pairs, llm=llm)
    made = go(store, combine_pairs)
    assert load_manifest(store, made.ref).licences == expected


def test_it_changes_no_name_and_non_commercial_answers_may_be_refused(store, told):
    told("")
    made = go(store, write_needs, llm="of-the-endpoint").ref
    told("CC-BY-NC-4.0")
    again = go(store, write_needs, llm="of-the-endpoint")
    assert (again.ref, again.reused) == (made, True)
    told("CC-BY-NC-4.0", allow="false")
    with pytest.raises(InputError, match="of-the-endpoint: CC-BY-NC-4.0"):
        go(store, write_needs, llm="of-the-endpoint", sample_rate=0.5)
