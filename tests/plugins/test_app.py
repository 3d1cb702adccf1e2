"""What the page's application answers where a question has no answer."""

from __future__ import annotations

from lineage_page.app import RETRY_AFTER_S, make_app

from pipeline_tasks.core.errors import FoundryError, InputError, TransientError


def test_who_is_sent_away_is_told_when_to_come_again():
    told = make_app().exception_handlers[FoundryError]
    busy, wrong = told(None, TransientError("others are answered")), told(None, InputError("no such version"))
    assert (busy.status_code, busy.headers["retry-after"]) == (503, RETRY_AFTER_S)
    assert (wrong.status_code, "retry-after" in wrong.headers) == (400, False)
