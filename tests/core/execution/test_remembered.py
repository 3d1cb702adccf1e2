from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.remembered import PREFIX, dataset_of, merge_remembered, remember, remembered
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import GrowthParams, step
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from tests.core.toy_steps import ITEMS, make, rows_of
from tests.stores import bare_run


class VisitParams(GrowthParams):
    """Who asks."""

    asked: str = ""


@step(reads={}, writes=ITEMS, kind="reduce", grows=True, always=True, dataset="visits")
def toy_visits(inputs: Inputs, params: VisitParams, run: Run) -> Iterator[pa.Table]:
    """How often each asked; the row before goes."""
    told = remembered(run)
    n = 1 + (told["n"][0].as_py() if told else 0)
    remember(run, pa.table({"n": [n]}))
    for key in {key for part in run.previous.parts() for key in part["item_id"].to_pylist()} if run.previous else ():
        run.withdraw(key)
    yield ITEMS.table([{"item_id": f"{params.asked}-{n}", "value": n}])


def test_what_is_remembered_is_that_of_the_parameters_and_outlives_all_versions(store):
    for asked in ("one", "one", "two", "one"):
        make(store, toy_visits, asked=asked, max_withdrawn=1)
    assert [row["item_id"] for row in rows_of(store, "visits")] == ["one-3"]
    store.delete("refs/visits/latest")
    drop(store, find_garbage(store, keep=0, memo=True, grace_s=0))
    assert not list(store.keys("versions"))
    make(store, toy_visits, asked="one")
    assert [row["item_id"] for row in rows_of(store, "visits")] == ["one-4"]
    assert {dataset_of(key) for key in store.keys(PREFIX)} == {"visits"} and len(list(store.keys(PREFIX))) == 2


def without_footer(data: bytes) -> bytes:
    return data[: len(data) // 2]


def with_another_page(data: bytes) -> bytes:
    return data[:4] + bytes([data[4] ^ 0xFF]) + data[5:]


def with_another_number(data: bytes) -> bytes:
    at = data.index(b"\x28\xb5\x2f\xfd") + 10  # within what zstd packed, which has no checksum
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("damage", [without_footer, with_another_page, with_another_number])
def test_a_damaged_table_is_told_and_is_none(store, caplog, damage: Callable[[bytes], bytes]):
    make(store, toy_visits)
    (key,) = store.keys(PREFIX)
    whole = store.read(key)
    store.replace(key, damage(whole))
    with pytest.raises(InputError, match=f"(?s){key} cannot be read .* what one store remembers is not in the other"):
        merge_remembered(key, whole, damage(whole))
    make(store, toy_visits, max_withdrawn=1)
    assert [row["value"] for row in rows_of(store, "visits")] == [1]
    assert f"{key} cannot be read, and toy_visits knows what the last version tells alone" in caplog.text


def test_a_body_that_is_called_by_itself_remembers_nothing(store):
    with pytest.raises(InputError, match="test remembers nothing for others; run it as a step"):
        remembered(bare_run(store))
