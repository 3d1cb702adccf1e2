from __future__ import annotations

import pytest

from pipeline_tasks.cli import upkeep
from pipeline_tasks.core.confine import CALLS, FILES, LAYERS, NAMESPACE


@pytest.mark.parametrize(("held", "ok"), [(LAYERS, True), ([CALLS], True), ([FILES], False), ([], False)])
def test_doctor_says_what_confines_readers_here_and_what_does_not(monkeypatch, held, ok):
    monkeypatch.setattr(upkeep, "held_here", lambda: list(held))
    found = upkeep._readers()
    confined, _, lacking = found.found.partition("not by")
    assert found.ok is ok
    assert all((layer in confined) == (layer in held) != (layer in lacking) for layer in LAYERS)
    assert NAMESPACE in found.found
