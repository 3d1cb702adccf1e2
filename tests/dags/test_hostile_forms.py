"""What a form or the REST API may not make a step do, through a real operator and a real process."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from foundry_airflow.calls import Call
from foundry_airflow.containers import container_of
from foundry_airflow.operators import StepOperator

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Resources
from pipeline_tasks.core.store import LocalStore
from tests.corpus.web import answer, serving
from tests.stores import rows

KEY = "sk-of-the-llm-0123456789"


@pytest.fixture(autouse=True)
def worker(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with keys, whose own environment claims that parameters are the operator's."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("FOUNDRY_CALLER", "operator")


def list_urls(source: str) -> str:
    return StepOperator(task_id="list_urls", step="list_urls", values={"source": source}).execute({"outlet_events": {}})


@pytest.mark.parametrize("source", ["/proc/self/environ", "/etc/hostname", "/"])
def test_a_form_reads_no_file_of_the_worker(store_folder: Path, source: str):
    with pytest.raises(AirflowFailException, match="list_urls failed with exit code 2"):
        list_urls(source)
    assert not (store_folder / "versions").exists()
    assert KEY not in "".join(path.read_text() for path in (store_folder / "lineage").rglob("*.json"))


def test_a_form_reads_what_lies_below_the_operators_folders(store_folder: Path, tmp_path: Path, monkeypatch):
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.pdf").touch()
    monkeypatch.setenv("FOUNDRY_SOURCE_ROOTS", str(tmp_path / "root"))
    list_urls(str(tmp_path / "root"))
    assert [row["url"] for row in rows(LocalStore(store_folder), "urls")] == [(tmp_path / "root" / "a.pdf").as_uri()]


def test_a_form_asks_no_server_inside(store_folder: Path):
    with serving({"/urls.txt": answer(200, b"https://example.org/a.pdf", "text/plain")}) as web:
        with pytest.raises(AirflowFailException, match="exit code 2"):
            list_urls(f"{web.url}/urls.txt")
        assert not web.asked


def test_a_container_takes_no_parameter_for_the_operators():
    settings.cache_clear()
    wanted = container_of(Call("count", "76a59d9ae48d0d8e", (), Resources()))
    assert wanted.environment["FOUNDRY_CALLER"] == "form"


def test_a_form_starts_no_training_from_a_folder_of_the_operators(store_folder: Path, tmp_path: Path):
    """The worker plans by itself, before any process has been told that a form asks."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "config.json").write_text(KEY)
    for named in (tmp_path / "secret", tmp_path / "nowhere"):
        operator = StepOperator(task_id="pretrain", step="pretrain", values={"backbone": str(named)})
        with pytest.raises(AirflowFailException, match="is no model's folder.*FOUNDRY_SOURCE_ROOTS, which names none"):
            operator.execute({"outlet_events": {}})
