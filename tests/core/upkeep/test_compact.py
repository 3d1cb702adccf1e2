"""Small parts of a bucket in packs: everything above the store stays as it was, and deletions reach into them."""

from __future__ import annotations

import random
import time

import pyarrow as pa
import pytest

from pipeline_tasks.core.erasure.answers import Lost
from pipeline_tasks.core.erasure.proof import prove
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.schema import Column, RowSchema
from pipeline_tasks.core.store.pack import PREFIX
from pipeline_tasks.core.store.s3 import S3Store
from pipeline_tasks.core.upkeep.check import find_damage, forget
from pipeline_tasks.core.upkeep.compact import compact, find_scattered
from pipeline_tasks.core.upkeep.gc import drop, find_garbage
from pipeline_tasks.core.versions import Version, load_manifest, manifest_key, ref_key
from tests.core.conftest import CACHE_BYTES
from tests.core.toy_steps import check_whole, make, toy_scale
from tests.core.upkeep.test_check import run_chain
from tests.core.upkeep.test_gc_beside_steps import tick
from tests.disks import small_disk
from tests.stores import put

NOTES = RowSchema("notes", "note_id", (Column("note_id", pa.string(), "id"), Column("text", pa.string(), "words")))
PARTS = 24
PACK_BYTES = 40_000
"""What eight or so of these parts come to."""


def notes(seed: int) -> list[list[dict]]:
    draw = random.Random(seed)
    return [[{"note_id": f"{seed}-{n}", "text": draw.randbytes(400).hex()}] for n in range(PARTS)]


def put_together(store: S3Store, pack_bytes: int = PACK_BYTES) -> int:
    """How many objects went into packs, of all that is older than now."""
    tick(store)
    found = find_scattered(store, grace_s=0, pack_bytes=pack_bytes)
    compact(store, found)
    return len(found.objects)


def elsewhere(store: S3Store, folder) -> S3Store:
    """The same store as another machine sees it."""
    return S3Store(str(store), folder, CACHE_BYTES)


def keys_in(store: S3Store, prefix: str) -> list[str]:
    return sorted(entry.key for entry in store.bucket.below(prefix))


def texts(store, ref: Ref) -> list[str]:
    return Version.open(store, ref).table()["text"].to_pylist()


def test_parts_lie_in_packs_and_are_what_they_were(s3, tmp_path, asked):
    ref = put(s3, NOTES, *notes(1))
    before, listed = s3.read(manifest_key(ref)), list(s3.keys("objects"))
    assert put_together(s3) == PARTS
    assert keys_in(s3, "objects") == [] and len(keys_in(s3, PREFIX)) > 1
    assert list(s3.keys("objects")) == listed and s3.present(listed) == set(listed)
    other = elsewhere(s3, tmp_path / "other")
    asked.clear()
    assert texts(other, ref) == [row["text"] for part in notes(1) for row in part]
    assert len(asked) < PARTS / 2, "neighbours come with one request"
    assert other.read(manifest_key(ref)) == before and find_damage(other).objects == {}
    assert put_together(s3) == 0, "nothing is left to do"


def test_steps_find_everything_made(s3):
    run_chain(s3)
    whole = check_whole(s3)
    assert put_together(s3, pack_bytes=500)
    packs = keys_in(s3, PREFIX)
    s3.delete_all(s3.keys("versions"))
    run_chain(s3)
    assert check_whole(s3) == whole
    assert make(s3, toy_scale).counters["parts_reused"] == 3
    assert keys_in(s3, PREFIX) == packs


def test_who_looked_before_finds_what_moved(s3, tmp_path):
    ref = put(s3, NOTES, *notes(1))
    early = elsewhere(s3, tmp_path / "early")
    assert early.packs.members() == {}
    keys = [part.key for part in load_manifest(s3, ref).parts]
    put_together(s3)
    assert early.exists(keys[0]) and early.present(keys) == set(keys)
    assert early.local_path(keys[1]).stat().st_size and early.sha256(keys[2]) in keys[2]
    early.packs.members()
    s3.delete_all(keys[:3])
    put(s3, NOTES, *notes(2))
    put_together(s3)
    assert not early.exists(keys[0]) and early.present(keys) == set(keys[3:])
    assert early.read(keys[4]) == s3.read(keys[4])
    with pytest.raises(InputError, match="missing from the store"):
        early.local_path(keys[2])


def test_what_a_full_disk_has_no_room_for_is_told_by_who_asks_for_it(s3, tmp_path):
    large = [[{"note_id": f"n{n}", "text": random.Random(n).randbytes(150_000).hex()}] for n in range(8)]
    keys = [part.key for part in load_manifest(s3, put(s3, NOTES, *large)).parts]
    put_together(s3)
    with small_disk(tmp_path / "small", "768k") as small:
        reader = elsewhere(s3, small)
        reader.bring(keys)
        there = [key for key in keys if (reader.folder / key).is_file()]
        assert 1 <= len(there) < len(keys)
        with pytest.raises(TransientError, match="no space is left"):
            reader.local_path(next(key for key in keys if key not in there))


def test_a_last_pack_of_less_than_half_is_not_made(s3):
    ref = put(s3, NOTES, *notes(1))
    size = sum(part.size_bytes for part in load_manifest(s3, ref).parts)
    assert put_together(s3, pack_bytes=2 * size + 1) == 0 and keys_in(s3, PREFIX) == []
    assert put_together(s3, pack_bytes=2 * size) == PARTS


def test_what_is_large_young_or_unnamed_stays_where_it_is(s3):
    put(s3, NOTES, *notes(1))
    large = put(s3, NOTES, [{"note_id": "x", "text": random.Random(1).randbytes(1 << 20).hex()}], dataset="large")
    unnamed = write_rows(s3, NOTES.table([{"note_id": "memo", "text": "nobody's"}]))
    tick(s3)
    assert find_scattered(s3, pack_bytes=PACK_BYTES).objects == []
    assert put_together(s3) == PARTS
    assert keys_in(s3, "objects") == sorted([load_manifest(s3, large).parts[0].key, unnamed.key])


def test_what_a_step_writes_again_meanwhile_stays_young(s3):
    ref = put(s3, NOTES, *notes(1))
    tick(s3)
    found = find_scattered(s3, grace_s=0, pack_bytes=PACK_BYTES)
    time.sleep(1.1)
    late = write_rows(s3, NOTES.table(notes(1)[3]))
    assert late.key in [entry.key for entry in found.objects]
    compact(s3, type(found)(found.groups, found.twice, grace_s=1.0))
    assert keys_in(s3, "objects") == [late.key]
    assert {entry.key: entry for entry in s3.entries("objects")}[late.key].modified > found.objects[3].modified
    assert put_together(s3) == 0
    assert keys_in(s3, "objects") == [] and len(texts(s3, ref)) == PARTS


def test_killed_between_writing_and_dropping_it_goes_on(s3, monkeypatch):
    ref = put(s3, NOTES, *notes(1))
    monkeypatch.setattr(type(s3.packs), "drop_loose", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        put_together(s3)
    assert len(keys_in(s3, "objects")) == PARTS and keys_in(s3, PREFIX)
    assert len(list(s3.keys("objects"))) == PARTS, "each is listed once"
    monkeypatch.undo()
    assert put_together(s3) == 0
    assert keys_in(s3, "objects") == [] and len(texts(s3, ref)) == PARTS


def test_garbage_goes_once_half_of_its_pack_is(s3):
    kept, gone = put(s3, NOTES, *notes(1)[:20], dataset="kept"), put(s3, NOTES, *notes(2), dataset="gone")
    size = sum(part.size_bytes for ref in (kept, gone) for part in load_manifest(s3, ref).parts)
    lost = [part.key for part in load_manifest(s3, gone).parts]
    put_together(s3, pack_bytes=size)
    (pack,) = keys_in(s3, PREFIX)
    s3.delete_all([manifest_key(gone), ref_key("gone")])
    s3.create_from(lost[0], s3.local_path(lost[0]))
    tick(s3)
    sweep = find_garbage(s3, grace_s=0)
    assert set(sweep.keys["objects"]) == set(lost)
    drop(s3, sweep)
    assert keys_in(s3, PREFIX) != [pack] and s3.present(lost) == set() and len(texts(s3, kept)) == 20
    few = put(s3, NOTES, *notes(1)[:12], dataset="few")
    s3.delete_all([manifest_key(kept), ref_key("kept")])
    assert find_garbage(s3, grace_s=0).keys["objects"] == [], "eight of these are less than half of it"
    assert len(texts(s3, few)) == 12


def test_what_is_deleted_is_nowhere_in_the_bucket(s3, tmp_path):
    put(s3, NOTES, *notes(1))
    keys = list(s3.keys("objects"))
    data = {key: s3.read(key) for key in keys}
    put_together(s3)
    s3.delete(keys[5])
    s3.delete_all(keys[10:])
    held = [s3.bucket.get(entry.key)[0] for entry in s3.bucket.below(PREFIX)]
    for key in keys:
        assert any(data[key] in pack for pack in held) == (key in s3.present(keys)), key
    assert s3.present(keys) == {*keys[:5], *keys[6:10]}
    s3.delete_all(keys)
    assert keys_in(s3, PREFIX) == [] and list(s3.keys("objects")) == []


def test_small_packs_are_put_together(s3):
    refs = [put(s3, NOTES, *notes(seed), dataset=f"n{seed}") for seed in (1, 2, 3)]
    put_together(s3, pack_bytes=PACK_BYTES)
    before = keys_in(s3, PREFIX)
    put_together(s3, pack_bytes=8 * PACK_BYTES)
    assert len(keys_in(s3, PREFIX)) < len(before) / 2
    assert all(len(texts(s3, ref)) == PARTS for ref in refs) and find_damage(s3).objects == {}


def test_what_lies_in_two_packs_goes_from_both(s3, monkeypatch):
    for seed in (1, 2):
        put(s3, NOTES, *notes(seed), dataset=f"n{seed}")
    put_together(s3, pack_bytes=PACK_BYTES)
    monkeypatch.setattr(type(s3.packs), "drop_covered", lambda _: None)
    put_together(s3, pack_bytes=8 * PACK_BYTES)
    keys = list(s3.keys("objects"))
    held = [entry.key for members in s3.packs.members().values() for entry in members]
    assert len(keys) == 2 * PARTS < len(held)
    gone = {key: s3.read(key) for key in keys[::5]}
    s3.delete_all(gone)
    packs = [s3.bucket.get(key)[0] for key in keys_in(s3, PREFIX)]
    assert not any(data in pack for data in gone.values() for pack in packs)
    assert s3.present(keys) == set(keys) - gone.keys()
    monkeypatch.undo()
    put_together(s3, pack_bytes=8 * PACK_BYTES)
    held = [entry.key for members in s3.packs.members().values() for entry in members]
    assert sorted(held) == sorted(set(keys) - gone.keys())


def test_a_damaged_member_is_told_and_forgotten(s3, tmp_path):
    ref = put(s3, NOTES, *notes(1))
    put_together(s3)
    place = s3.packs.find(load_manifest(s3, ref).parts[4].key)
    data = bytearray(s3.bucket.get(place.pack)[0])
    data[place.first + 7] ^= 1
    s3.bucket.put(place.pack, bytes(data))
    other = elsewhere(s3, tmp_path / "other")
    with pytest.raises(InputError, match=f"{place.key} in .* is corrupted"):
        texts(other, ref)
    found = find_damage(other)
    assert list(found.objects) == [place.key] and [m.ref for m in found.versions] == [ref]
    forget(other, found)
    assert len(list(other.keys("objects"))) == PARTS - 1 and find_damage(other).objects == {}


def test_a_pack_that_does_not_say_what_is_in_it_is_told(s3, tmp_path, caplog):
    ref = put(s3, NOTES, *notes(1))
    put_together(s3)
    pack = keys_in(s3, PREFIX)[0]
    s3.bucket.put(pack, s3.bucket.get(pack)[0][:-3])
    other = elsewhere(s3, tmp_path / "other")
    lost = find_damage(other)
    told = lost.objects.pop(pack)
    assert told == "the list of what lies in it is damaged"
    assert set(lost.objects.values()) == {"missing"} and [m.ref for m in lost.versions] == [ref]
    assert f"{pack} in {s3} is damaged" in caplog.text
    assert prove(other, ["of nobody"], Lost()).where == [pack], "nobody knows what is in it"
    forget(other, find_damage(other))
    assert pack not in keys_in(s3, PREFIX) and not find_damage(other).objects
    assert prove(other, ["of nobody"], Lost()).clean
