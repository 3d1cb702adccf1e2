"""What lies damaged on a disk is not learned from, and finding that out is paid for once a training."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, NoParams, step
from pipeline_tasks.core.store import LocalStore, Store
from tests.core.toy_steps import SCALED, latest, make, rows_of, toy_bare, toy_list, toy_scale, toy_total, toy_unique

WORLD = {f"item{n}": n % 50 for n in range(60)}


@step(reads={"unique": From(SCALED, "unique")}, writes=None, kind="reduce", dataset="model/toy", resumes=True)
def toy_learn(inputs: Inputs, params: NoParams, run: Run) -> Path:
    """What it has read."""
    out = run.scratch / "model"
    out.mkdir(exist_ok=True)
    (out / "weights.json").write_text(json.dumps(inputs["unique"].table().to_pylist()))
    return out


def read_by_it(store: Store) -> list[Part]:
    """A part of rows and one of removed keys among them."""
    make(store, toy_list, rows=WORLD, part_rows=30)
    for what in (toy_scale, toy_unique):
        make(store, what)
    manifest = latest(store, "unique").manifest
    parts = [*manifest.parts, *(removal.part for removal in manifest.removals)]
    assert len(parts) == 3
    return parts


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.chmod(0o644)
    path.write_bytes(data)


def learned(store: Store) -> list[dict]:
    (weights,) = latest(store, "model/toy").manifest.parts
    return json.loads(store.local_path(weights.key).read_text())


def test_a_bit_that_a_disk_has_turned_is_not_learned_from(store):
    for part in read_by_it(store):
        path = store.local_path(part.key)
        for bit in random.Random(part.sha256).sample(range(8 * part.size_bytes), 8):
            flip(path, bit)
            with pytest.raises(InputError, match=rf"{part.key} in .* \(its sha256 is .*\); copy it .*`foundry check`"):
                make(store, toy_learn)
            flip(path, bit)
    make(store, toy_learn)
    assert learned(store) == rows_of(store, "unique")


def test_a_damaged_copy_of_what_a_bucket_has_is_fetched_anew(s3):
    parts = read_by_it(s3)
    rows = rows_of(s3, "unique")
    for part in parts:
        flip(s3.local_path(part.key), 4 * part.size_bytes)
    make(s3, toy_learn)
    assert learned(s3) == rows
    assert [file_sha256(s3.local_path(part.key)) for part in parts] == [part.sha256 for part in parts]


def test_it_is_looked_for_where_a_training_begins_and_nowhere_else(store, monkeypatch):
    parts, looked_at, sha256 = read_by_it(store), [], LocalStore.sha256

    def noted(self: LocalStore, key: str, *, here: bool = False) -> str | None:
        looked_at.append(key)
        return sha256(self, key, here=here)

    monkeypatch.setattr(LocalStore, "sha256", noted)
    for what in (toy_learn, toy_learn, toy_bare, toy_total):
        make(store, what)
    assert looked_at == [part.key for part in parts]
