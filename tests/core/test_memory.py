from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.lineage.sandbox import Limits
from pipeline_tasks.core.memory import memory_limit, question_mib
from pipeline_tasks.core.settings import settings

GIB = 1 << 30


def machine(root: Path, cgroup: str, **limits: str) -> Path:
    """A machine of 16 GiB; ``limits``: file below /sys/fs/cgroup, ``__`` for a slash, and what it says."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal:       16777216 kB\nMemFree:  1 kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in limits.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("cgroup", "limits", "gib"),
    [
        ("0::/\n", {}, 16),
        ("0::/\n", {"memory.max": "max"}, 16),
        ("0::/\n", {"memory.max": str(2 * GIB)}, 2),
        ("0::/a/b\n", {"a__b__memory.max": "max", "a__memory.max": str(3 * GIB)}, 3),
        ("5:cpu:/\n4:memory:/docker/x\n", {"memory__memory.limit_in_bytes": str(2 * GIB)}, 2),
        ("4:memory:/x\n0::/x\n", {"memory__x__memory.limit_in_bytes": str(9223372036854771712)}, 16),
    ],
)
def test_the_least_limit_around_a_process_counts(tmp_path, cgroup, limits, gib):
    assert memory_limit(machine(tmp_path, cgroup, **limits)) == gib * GIB


def test_this_machine_has_memory():
    assert GIB // 4 < memory_limit() < 1 << 50


def test_four_questions_fit_into_half_of_a_small_container(tmp_path, monkeypatch):
    """A fixed 2 GB for each question was all that the web server's container has."""
    monkeypatch.setattr("pipeline_tasks.core.memory.memory_limit", lambda: 2 * GIB)
    assert 4 * question_mib() == 1024 and Limits.here().memory_mb == 256
    monkeypatch.setenv("FOUNDRY_SQL_MEMORY_MIB", "96")
    settings.cache_clear()
    assert question_mib() == Limits.here().memory_mb == 96
    settings.cache_clear()
