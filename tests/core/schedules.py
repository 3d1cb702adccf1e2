"""Schedules of the model of the store, in a folder and in a bucket."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.errors import FlakyFailure
from hypothesis.stateful import run_state_machine_as_test

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.conftest import CACHE_BYTES
from tests.core.machine import StoreMachine
from tests.seaweed import Seaweed


def in_folder(root: Path) -> type[StoreMachine]:
    """Schedules over folders below ``root``."""

    class InFolder(StoreMachine):
        place = staticmethod(lambda: root / uuid.uuid4().hex)
        opened = staticmethod(LocalStore)
        counts: ClassVar[Counter[str]] = Counter()

    return InFolder


def in_bucket(server: Seaweed, caches: Path) -> type[StoreMachine]:
    """Schedules over stores in a bucket, whose settings are in the environment."""

    class InBucket(StoreMachine):
        place = staticmethod(server.address)
        opened = staticmethod(lambda where: S3Store(where, caches, CACHE_BYTES))
        counts: ClassVar[Counter[str]] = Counter()
        disks = False

    return InBucket


def run_schedules(machine: type[StoreMachine], n: int, seed: int = 0) -> None:
    """Run ``n`` schedules; what the first that fails has broken is told, though it may not break it a second time."""
    asked = settings(
        max_examples=n, stateful_step_count=12, deadline=None, database=None, print_blob=False,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    try:
        run_state_machine_as_test(seeded(seed)(machine), settings=asked)
    except FlakyFailure as found:
        raise found.exceptions[0] from found
