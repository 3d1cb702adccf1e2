from __future__ import annotations

import pyarrow as pa
import pytest
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.licences import is_non_commercial
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.schema import Column, RowSchema
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import From, NoParams, StepParams, step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from tests.stores import go, put

NAMES = RowSchema("names", "name", (Column("name", pa.string(), "a name"),))
WEIGHTS = {"open": "Apache-2.0", "closed": "CC-BY-NC-4.0"}


class Model(StepParams):
    """Which weights."""

    model: str = Field("open", description="a name")

    def licences(self) -> dict[str, str]:
        return {self.model: WEIGHTS[self.model]}


@step(reads={"names": NAMES}, writes=NAMES, kind="map", dataset="ranked/{model}")
def with_model(rows: pa.Table, params: Model, run: Run) -> pa.Table:
    """Rows that a model has seen."""
    return rows


@step(reads={"names": From(NAMES, "ranked/open")}, writes=NAMES, kind="reduce", dataset="merged")
def without_model(inputs: Inputs, params: NoParams, run: Run) -> pa.Table:
    """Rows made from rows."""
    return inputs.each("names")[0].table()


@pytest.fixture
def store(tmp_path):
    store = LocalStore(tmp_path)
    put(store, NAMES, [{"name": "a"}])
    return store


@pytest.fixture
def refusing(monkeypatch):
    monkeypatch.setenv("FOUNDRY_ALLOW_NONCOMMERCIAL", "false")
    settings.cache_clear()


@pytest.mark.parametrize(
    "licence",
    ["CC-BY-NC-4.0", "cc-by-nc-sa-4.0", "Non-Commercial research licence", "cc_by_nc_4.0", "non commercial use only"],
)
def test_non_commercial_licences_are_known_by_name(licence):
    assert is_non_commercial(licence)


@pytest.mark.parametrize("licence", ["Apache-2.0", "MIT", "CC-BY-4.0", "BSD-3-Clause", "proprietary", "NCSA"])
def test_other_licences_are_not(licence):
    assert not is_non_commercial(licence)


def test_a_dataset_bears_the_licences_of_all_weights_behind_it(store):
    go(store, with_model, model="open")
    assert load_manifest(store, go(store, with_model, model="open").ref).licences == {"open": "Apache-2.0"}
    go(store, with_model, model="closed")
    merged = go(store, without_model, {"names": ["ranked/open", "ranked/closed"]}).ref
    assert load_manifest(store, merged).licences == WEIGHTS
    marked = query(store, "SELECT dataset FROM licences WHERE non_commercial ORDER BY dataset").to_pylist()
    assert marked == [{"dataset": "merged"}, {"dataset": "ranked/closed"}]


def test_the_setting_refuses_to_make_what_is_not_for_commerce_and_all_that_follows(store, refusing, monkeypatch):
    go(store, with_model, model="open")
    with pytest.raises(InputError, match=r"ranked/closed .*closed: CC-BY-NC-4\.0.*FOUNDRY_ALLOW_NONCOMMERCIAL"):
        go(store, with_model, model="closed")
    assert not list(store.keys("versions/ranked/closed"))
    monkeypatch.setenv("FOUNDRY_ALLOW_NONCOMMERCIAL", "true")
    settings.cache_clear()
    go(store, with_model, model="closed")
    go(store, without_model, {"names": ["ranked/closed"]})
    monkeypatch.setenv("FOUNDRY_ALLOW_NONCOMMERCIAL", "false")
    settings.cache_clear()
    with pytest.raises(InputError, match="merged would be made with non-commercial weights"):
        go(store, without_model, {"names": ["ranked/closed"]})


def test_a_licence_is_not_part_of_the_version(store, monkeypatch):
    before = go(store, with_model, model="open").ref
    monkeypatch.setitem(WEIGHTS, "open", "MIT")
    assert go(store, with_model, model="open").ref == before
