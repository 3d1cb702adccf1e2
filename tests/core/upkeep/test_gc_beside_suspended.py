"""A step whose process was suspended for longer than a lease, so that another machine took its pin for a dead one's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import NoParams, step
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.conftest import CACHE_BYTES
from tests.core.toy_steps import ITEMS, check_whole, make, rows_of, toy_list
from tests.core.upkeep.test_gc_beside_steps import LEASE_S, WAIT_S, collect

NEVER_S = 600.0
meanwhile: list[Callable[[], None]] = []


@step(reads={"items": ITEMS}, writes=ITEMS, kind="reduce", dataset="long")
def toy_long(inputs: Inputs, params: NoParams, run: Run) -> Iterator[pa.Table]:
    """Two parts, between which much may happen."""
    yield ITEMS.table([{"item_id": "first", "value": 7}])
    while meanwhile:
        meanwhile.pop()()
    yield ITEMS.table([{"item_id": "last", "value": 9}])


def machine(s3: S3Store, folder: Path, lease_s: float) -> S3Store:
    return S3Store(str(s3), folder, CACHE_BYTES, lease_s)


def forget_pins(s3: S3Store) -> None:
    """As whoever watched them for a lease does."""
    s3.delete_all(list(s3.keys("pins")))


def test_a_pin_that_others_took_for_a_dead_ones_is_shown_again(s3, tmp_path):
    here, there = (machine(s3, tmp_path / name, LEASE_S) for name in ("here", "there"))
    with there.pinned("suspended", b"suspended"):
        (before,) = here.pins()
        assert there.pins_lasted()
        forget_pins(s3)
        assert not there.pins_lasted()
        until = time.monotonic() + WAIT_S
        while not list(s3.keys("pins")):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert here.pins() == [before] and not there.pins_lasted()
    assert here.pins() == [] and there.pins_lasted()


def test_a_step_whose_parts_were_deleted_meanwhile_is_tried_again(s3, tmp_path):
    here, there = (machine(s3, tmp_path / name, NEVER_S) for name in ("here", "there"))
    make(here, toy_list, rows={"a": 1})
    meanwhile.extend([lambda: collect(here), lambda: forget_pins(s3)])
    with pytest.raises(TransientError, match="1 of the parts of long@.* were deleted while this process was suspended"):
        make(there, toy_long)
    assert s3.read("refs/long/latest") is None
    assert not make(there, toy_long).reused
    assert [row["item_id"] for row in rows_of(here, "long")] == ["first", "last"]
    check_whole(here)
