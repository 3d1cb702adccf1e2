"""Erasing from a bucket whose small parts lie in packs: it takes requests for packs, and not for each part."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.erasure.answers import Lost
from pipeline_tasks.core.erasure.erase import erase
from pipeline_tasks.core.erasure.proof import prove
from pipeline_tasks.core.parts import write_rows
from pipeline_tasks.core.pins import deletion
from pipeline_tasks.core.schema import REJECTS
from pipeline_tasks.core.store.packs import Packs
from pipeline_tasks.core.versions import load_manifest, manifest_key, ref_key
from tests.core.upkeep.test_compact import NOTES, PARTS, elsewhere, notes, put_together, texts
from tests.stores import put

SCHEMAS = {"notes": NOTES}
LOOKS = {
    "to say what would go": lambda store: erase(store, ["1-5"], SCHEMAS, dry_run=True),
    "to prove it": lambda store: prove(store, ["1-5"], Lost()),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_look_at_all_parts_takes_few_requests(s3, tmp_path, asked, look):
    put(s3, NOTES, *notes(1))
    put_together(s3)
    other = elsewhere(s3, tmp_path / "other")
    asked.clear()
    look(other)
    assert len(asked) < PARTS / 2


def test_an_erasure_brings_rejects_and_what_no_version_names_together(s3, tmp_path, asked):
    ref, gone = put(s3, NOTES, *notes(1)), put(s3, NOTES, *notes(2), dataset="gone")
    refused = [write_rows(s3, REJECTS.table([{"row_id": f"{n}", "detail": n["text"]}])) for (n,) in notes(3)]
    manifest = load_manifest(s3, ref)
    s3.replace(manifest_key(ref), manifest.model_copy(update={"rejects": refused}).to_bytes())
    put_together(s3)
    s3.delete_all([manifest_key(gone), ref_key("gone")])
    other = elsewhere(s3, tmp_path / "other")
    asked.clear()
    assert erase(other, ["1-5"], SCHEMAS).findings.clean
    assert len(asked) < 2 * PARTS
    assert len(texts(s3, ref)) == PARTS - 1 and len(list(s3.keys("objects"))) == 2 * PARTS


def test_a_pack_is_written_anew_once_for_all_that_leave_it(s3, monkeypatch):
    put(s3, NOTES, *notes(1))
    put_together(s3)
    members, write, written = s3.packs.members(), Packs.write, []
    monkeypatch.setattr(Packs, "write", lambda *args: written.append(write(*args)))
    monkeypatch.setattr("pipeline_tasks.core.pins._BLOCK", PARTS // len(members))
    gone = sorted(entry.key for entries in members.values() for entry in entries[1:])
    with deletion(s3, gone) as right:
        right.delete_all(gone)
    assert len(written) < 2 * len(members), "a block may end within a pack"
    assert s3.present(gone) == set()
