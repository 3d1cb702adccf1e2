from __future__ import annotations

import pytest

from pipeline_tasks.corpus.extract_text import readers

GIB = 1 << 30


@pytest.mark.parametrize(
    ("workers", "memory_gib", "limit_mib", "n"), [(8, 4, 1024, 4), (2, 4, 1024, 2), (8, 4, 512, 8), (8, 0.5, 1024, 1)]
)
def test_no_more_readers_than_may_all_use_what_they_may(workers, memory_gib, limit_mib, n):
    assert readers(workers, int(memory_gib * GIB), limit_mib) == n
