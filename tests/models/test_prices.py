"""What is listed for a model and for its dated snapshots."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.paid.endpoint import Price
from pipeline_tasks.models.prices import listed


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("gpt-4o", Price(2.5, 10.0)),
        ("gpt-4o-2024-08-06", Price(2.5, 10.0)),
        ("gpt-4o-2024-05-13", Price(5.0, 15.0)),
        ("gpt-4o-mini-2024-07-18", Price(0.15, 0.6)),
    ],
)
def test_a_snapshot_costs_what_its_model_does_unless_it_has_a_price_of_its_own(model, price):
    found = listed(model, "api.openai.com")
    assert found and found.price == price
