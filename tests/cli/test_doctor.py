from __future__ import annotations

import pytest

from pipeline_tasks.cli import doctor
from pipeline_tasks.core.confine import CALLS, FILES, LAYERS, NAMESPACE
from pipeline_tasks.core.settings import settings
from tests.fake_s3 import FakeS3, fake_servers, heeds_conditions


@pytest.mark.parametrize(("held", "ok"), [(LAYERS, True), ([CALLS], True), ([FILES], False), ([], False)])
def test_doctor_says_what_confines_readers_here_and_what_does_not(monkeypatch, held, ok):
    monkeypatch.setattr(doctor, "held_here", lambda: list(held))
    found = doctor._readers()
    confined, _, lacking = found.found.partition("not by")
    assert found.ok is ok
    assert all((layer in confined) == (layer in held) != (layer in lacking) for layer in LAYERS)
    assert NAMESPACE in found.found


@pytest.mark.parametrize("heeds", [True, False])
def test_doctor_finds_a_server_that_lacks_conditional_writes(monkeypatch, tmp_path, heeds):
    def answers(server: FakeS3, what: str) -> bool:
        if what == "GET":
            server.answer(200, b"<ListBucketResult/>")
            return True
        return what == "PUT" and heeds and heeds_conditions(server)

    with fake_servers(monkeypatch) as start:
        bucket, server = start(answers)
        monkeypatch.setenv("FOUNDRY_STORE", bucket.address)
        monkeypatch.setenv("FOUNDRY_STORE_CACHE", str(tmp_path))
        settings.cache_clear()
        found = doctor._store(settings())
    settings.cache_clear()
    assert found.ok is heeds and ("lacks conditional writes" in found.found) is not heeds
    assert server.asked["PUT"] == 3 - (not heeds) and server.asked["DELETE"] == 1


def test_doctor_says_that_the_demo_asks_a_recording():
    found = doctor._endpoint(settings().model_copy(update={"openai_base_url": ""}))
    assert not found.ok and not found.needed and "`make demo` serves recorded answers" in found.found
