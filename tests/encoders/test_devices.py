"""Which devices the settings name."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.encoders.devices import device_kind, devices, devices_of


@pytest.fixture
def named(monkeypatch):
    """The settings name these devices."""

    def set_to(text: str) -> None:
        monkeypatch.setenv("FOUNDRY_DEVICES", text)
        settings.cache_clear()

    return set_to


@pytest.mark.parametrize("text", ["cuda:0,cuda:1", "cuda:0, cuda:1", " cuda:0 ,cuda:1,"])
def test_spaces_between_devices_drop_none(named, text):
    named(text)
    assert (devices(), devices_of("cuda"), device_kind()) == ("cuda:0,cuda:1", ["cuda:0", "cuda:1"], "cuda")
    assert devices_of("cpu") == ["cpu"]


def test_nothing_but_spaces_names_none(named):
    named(" , ")
    assert devices().startswith(("cuda:0", "cpu"))
