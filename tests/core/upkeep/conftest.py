from __future__ import annotations

import pytest

from pipeline_tasks.core.store.bucket import Bucket
from pipeline_tasks.core.store.pack import PREFIX


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """The key of every object and pack of which bytes are fetched."""
    seen: list[str] = []
    for name in ("get", "get_range", "download"):
        plain = getattr(Bucket, name)

        def noted(self, key, *args, plain=plain):
            if key.startswith(("objects", PREFIX)):
                seen.append(key)
            return plain(self, key, *args)

        monkeypatch.setattr(Bucket, name, noted)
    return seen
