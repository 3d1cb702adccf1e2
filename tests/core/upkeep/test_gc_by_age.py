"""Which version is newest is what was built last, whatever wrote its manifest anew since."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipeline_tasks.core.events import PREFIX
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore, Store
from pipeline_tasks.core.upkeep.gc import HOUR_S, find_garbage
from pipeline_tasks.core.upkeep.sync import sync
from pipeline_tasks.core.versions import manifest_key
from tests.core.upkeep.test_gc import age, gc_make, make

TICK_S = 1.1  # a bucket's server tells times in whole seconds


@pytest.fixture
def source(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "source")


def built(store: Store, n: int = 6) -> list[Ref]:
    """Versions of ``things``, the first one first; by their ids the last would be the first."""
    names = [f"thing {i}" for i in range(n)]
    names.sort(key=lambda name: plan(store, gc_make, {"name": name}).ref.version, reverse=True)
    return [made for name in names if (made := make(store, gc_make, name=name).ref)]


def dropped(store: Store, **asked: float) -> set[str]:
    return set(find_garbage(store, grace_s=0, **asked).keys["versions"])


def keys(refs: list[Ref]) -> set[str]:
    return {manifest_key(ref) for ref in refs}


def test_a_copy_of_a_store_keeps_the_versions_that_its_source_keeps(source, any_store):
    refs = built(source)
    time.sleep(TICK_S)
    sync(source, any_store)
    for keep in (1, 3):
        assert dropped(any_store, keep=keep) == dropped(source, keep=keep) == keys(refs[:-keep])


def test_manifests_are_copied_in_the_order_of_their_age(source, tmp_path):
    refs, target = built(source, 12), LocalStore(tmp_path / "target")
    sync(source, target)
    written = sorted(target.entries("versions"), key=lambda entry: entry.modified)
    assert [entry.key for entry in written] == [manifest_key(ref) for ref in refs]


def test_what_an_erasure_wrote_anew_is_no_younger(source):
    refs = built(source)
    for ref in reversed(refs[:-1]):
        source.replace(manifest_key(ref), source.read(manifest_key(ref)))
    assert dropped(source, keep=2) == keys(refs[:-2])
    assert dropped(source, keep=2, keep_s=HOUR_S) == set()
    assert set(find_garbage(source, keep=2, grace_s=HOUR_S).keys["versions"]) == set(), "written within the grace"


def test_a_manifest_that_is_older_than_its_event_counts_as_old(source):
    refs = built(source)
    age(source, 48)
    assert dropped(source, keep_s=HOUR_S) == keys(refs[:-1])


def test_without_events_manifests_tell(source):
    refs = built(source)
    for key in source.keys(PREFIX):
        source.replace(key, b"torn")
    assert dropped(source, keep=2) == keys(refs[:-2])


def test_a_run_that_found_a_version_made_does_not_make_it_younger(source):
    refs = built(source, 3)
    make(source, gc_make, name=_name(source, refs[0]))
    for ref in refs:
        source.replace(manifest_key(ref), source.read(manifest_key(ref)))
    assert dropped(source, keep=1) == keys(refs[:-1])


def _name(store: Store, ref: Ref) -> str:
    names = (f"thing {i}" for i in range(9))
    return next(name for name in names if plan(store, gc_make, {"name": name}).ref == ref)
