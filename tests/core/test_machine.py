"""A few schedules of the store under faults; ``python benchmarks/store_schedules.py 2000`` runs as many as asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.execution import latest
from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import point
from tests.core.schedules import in_bucket, in_folder, run_schedules
from tests.seaweed import Seaweed

IN_FOLDER, IN_BUCKET = 8, 2


def test_no_schedule_in_a_folder_loses_or_halves_an_object(tmp_path: Path):
    run_schedules(in_folder(tmp_path), IN_FOLDER)


def test_no_schedule_in_a_bucket_loses_or_halves_an_object(seaweed: Seaweed, s3: object, tmp_path: Path):
    run_schedules(in_bucket(seaweed, tmp_path / "caches"), IN_BUCKET)


def test_schedules_notice_a_ref_that_is_written_before_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Were a fault as plain as this not found, the others would not be."""

    def pointed_first(store: Store, manifest: Manifest) -> bool:
        point(store, manifest.ref)
        return real(store, manifest)

    real = latest.commit
    monkeypatch.setattr(latest, "commit", pointed_first)
    with pytest.raises(AssertionError, match="leads nowhere"):
        run_schedules(in_folder(tmp_path), 100, seed=9)
