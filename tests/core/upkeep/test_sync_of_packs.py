"""Copies of a bucket whose small parts lie in packs."""

from __future__ import annotations

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.store.packs import Packs
from pipeline_tasks.core.upkeep.compact import find_scattered
from pipeline_tasks.core.upkeep.sync import sync
from pipeline_tasks.core.versions import load_manifest, manifest_key
from tests.core.upkeep.test_compact import NOTES, PARTS, elsewhere, notes, put_together, texts
from tests.stores import put


def test_a_copy_in_a_folder_has_every_part_for_a_few_requests(s3, tmp_path, asked):
    ref = put(s3, NOTES, *notes(1))
    put_together(s3)
    folder = LocalStore(tmp_path / "folder")
    asked.clear()
    assert sync(s3, folder).copied["objects"] == PARTS
    assert len(asked) < PARTS / 2
    assert texts(folder, ref) == texts(s3, ref)
    assert find_scattered(folder, grace_s=0).objects == []


def test_a_copy_made_while_packs_change_has_every_part(s3, tmp_path, monkeypatch):
    refs = [put(s3, NOTES, *notes(seed)) for seed in (1, 2)]
    put_together(s3)
    plain, first = Packs.read_run, iter([True])

    def late(self, run):
        if next(first, False):
            elsewhere(s3, tmp_path / "other").packs.take_out([run[0].key])
        return plain(self, run)

    monkeypatch.setattr(Packs, "read_run", late)
    folder = LocalStore(tmp_path / "folder")
    done = sync(s3, folder)
    assert len(done.problems) == 2 and "missing" in done.problems[0] and "is not copied" in done.problems[1]
    assert done.copied["objects"] == 2 * PARTS - 1 and done.copied["versions"] == 1
    assert sum(folder.exists(manifest_key(ref)) for ref in refs) == 1


def test_what_is_corrupted_in_a_pack_stays_behind_alone(s3, tmp_path):
    ref = put(s3, NOTES, *notes(1))
    put_together(s3)
    place = s3.packs.find(load_manifest(s3, ref).parts[3].key)
    body = bytearray(s3.bucket.get(place.pack)[0])
    body[place.first] ^= 1
    s3.bucket.put(place.pack, bytes(body))
    done = sync(s3, LocalStore(tmp_path / "folder"))
    assert done.copied["objects"] == PARTS - 1 and not done.copied["versions"]
    assert f"{place.key} in {s3} is corrupted" in done.problems[0]
