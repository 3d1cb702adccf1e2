"""What DAGs and back-ends make of the configured domain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from foundry_airflow.calls import Call
from foundry_airflow.containers import container_of, folders
from foundry_airflow.forms import form

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Resources
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents

CALL = Call("count", "76a59d9ae48d0d8e", (), Resources())


@pytest.fixture
def configured(store_folder, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def choose(domain: str) -> None:
        monkeypatch.setenv("FOUNDRY_DOMAIN", domain)
        settings.cache_clear()

    return choose


@pytest.mark.parametrize("domain", ["disaster", "food_safety"])
def test_a_form_offers_the_intents_of_the_domain(configured, domain):
    configured(domain)
    fields = form("write_needs", "intents", "intents_per_passage").params
    intents = list(load_intents(domain_folder()))
    assert fields["intents"].schema["examples"] == intents
    assert ", ".join(intents) in fields["intents"].description
    assert "maximum" not in fields["intents_per_passage"].schema


def test_a_container_finds_a_domain_that_is_named_by_its_path(configured, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    configured("./kitchens")
    assert folders()["domain"] == container_of(CALL).environment["FOUNDRY_DOMAIN"] == str(tmp_path / "kitchens")
    configured("food_safety")
    assert "domain" not in folders() and container_of(CALL).environment["FOUNDRY_DOMAIN"] == "food_safety"
