"""What batches cost is in the lineage, once, and no round of them is a run that failed or goes on."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.lineage.metrics import exposition
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.report.sections.costs import cost_section
from pipeline_tasks.report.subject import lineage
from pipeline_tasks.synthesis.llm.batch_rounds import SHARE
from pipeline_tasks.synthesis.write_needs import write_needs
from tests.stores import go
from tests.synthesis.batch_endpoint import TOKENS
from tests.synthesis.llm import test_batch_rounds
from tests.synthesis.llm.test_batch_rounds import ASKED, looked

store, there = test_batch_rounds.store, test_batch_rounds.there
USD = 5 * (TOKENS["prompt_tokens"] * 20_000.0 + TOKENS["completion_tokens"] * 8.0) / 1e6 * SHARE
"""What all five answers cost."""
OF_VERSION = """
SELECT sum(value) FILTER (name = 'cost_usd') AS usd, sum(value) FILTER (name = 'prompt_tokens') AS prompt_tokens,
    sum(value) FILTER (name = 'completion_tokens') AS completion_tokens,
    sum(value) FILTER (name = 'llm_requests') AS llm_requests
FROM work JOIN counters USING (run_id) WHERE work.dataset || '@' || work.version = '{}'"""


@pytest.fixture(autouse=True)
def dear(there, monkeypatch):
    """A price that is seen in cents."""
    monkeypatch.setenv("FOUNDRY_LLM_PRICE_IN", "20000")
    settings.cache_clear()


def samples(store: LocalStore) -> dict[tuple[str, ...], float]:
    """The metrics of write_needs, by name and the values of their other labels."""
    return {
        (sample.name, *(text for name, text in sorted(sample.labels.items()) if name != "step")): sample.value
        for family in text_string_to_metric_families(exposition(store))
        for sample in family.samples
        if sample.labels.get("step") == "write_needs"
    }


def test_what_batches_cost_is_the_next_versions_and_counted_once(store, there):
    looked(store, max_run_usd=1e6)
    looked(store, max_run_usd=1e6)
    there.end()
    looked(store, max_run_usd=1e6)
    before = samples(store)
    assert before["foundry_step_counter_total", "cost_usd"] == pytest.approx(USD)
    assert before["foundry_step_runs_unfinished",] == 0
    assert [key for key in before if key[0] == "foundry_step_runs_total"] == [
        ("foundry_step_runs_total", "false", "complete")
    ]
    assert ("foundry_step_last_success_timestamp_seconds",) not in before, "it has made nothing yet"
    ref = str(go(store, write_needs, **ASKED).ref)
    (told,) = query(store, OF_VERSION.format(ref)).to_pylist()
    tokens = {name: 5 * n for name, n in TOKENS.items()}
    assert told == {"usd": pytest.approx(USD), "llm_requests": 5} | tokens
    (cost,) = query(store, f"FROM cost_of('{ref}')").to_pylist()
    assert cost["cost_usd"] == pytest.approx(USD)
    with lineage(store) as ask:
        (row,) = (row for row in cost_section(ask, ref).table.rows if row[0] == "write_needs")
    assert row[1:3] == ("2", "0") and row[6] == f"{USD:,.2f}"
    assert samples(store)["foundry_step_counter_total", "cost_usd"] == pytest.approx(USD)


def test_a_round_that_ends_with_an_error_tells_what_it_paid(store, there):
    looked(store, max_run_usd=1e6)
    there.reason = "error"
    there.end("cancelled")
    with pytest.raises(InputError, match="5 requests have none"):
        looked(store, max_run_usd=1e6)
    assert samples(store)["foundry_step_counter_total", "cost_usd"] == pytest.approx(USD)
