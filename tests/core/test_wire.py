from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pipeline_tasks.core.wire import retry_after_s


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("", None), ("7", 7), ("21\x1f", 21), ("-3", None), ("soon", None), ("\u00b2", None), ("9" * 400, None)],
)
def test_retry_after_in_seconds(said, seconds):
    assert retry_after_s(said) == seconds


def test_retry_after_as_a_date():
    then = datetime.now(UTC) + timedelta(seconds=90)
    assert retry_after_s(format_datetime(then, usegmt=True)) == pytest.approx(90, abs=5)
    assert retry_after_s(format_datetime(then - timedelta(days=1), usegmt=True)) == 0
