"""What the page's application answers where a question has no answer."""

from __future__ import annotations

from lineage_page.app import RETRY_AFTER_S, make_app
from lineage_plugin import Page
from starlette.testclient import TestClient

from pipeline_tasks.core.errors import FoundryError, InputError, TransientError
from pipeline_tasks.web import HEADERS


def test_who_is_sent_away_is_told_when_to_come_again():
    told = make_app().exception_handlers[FoundryError]
    busy, wrong = told(None, TransientError("others are answered")), told(None, InputError("no such version"))
    assert (busy.status_code, busy.headers["retry-after"]) == (503, RETRY_AFTER_S)
    assert (wrong.status_code, "retry-after" in wrong.headers) == (400, False)


def test_an_error_of_ours_keeps_foreign_code_out_too(monkeypatch):
    async def broken(_):
        raise RuntimeError

    monkeypatch.setattr("lineage_page.access.logged_in", broken)
    answer = TestClient(Page(), raise_server_exceptions=False).get("/")
    assert (answer.status_code, {name: answer.headers.get(name) for name in HEADERS}) == (500, HEADERS)
