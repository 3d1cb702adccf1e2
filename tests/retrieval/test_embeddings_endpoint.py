"""What an endpoint that cannot be believed says of its tokens does not move a limit."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.paid.endpoint import Endpoint
from pipeline_tasks.core.paid.spending import Ledger, Limit, LimitReached
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.retrieval.embeddings_endpoint import EmbeddingsEndpoint
from tests.retrieval.endpoint import DIM, serving


@pytest.mark.parametrize("told", [-(10**9), 10**9, 10**25, float("inf"), "10 tokens", [3], None])
def test_tokens_that_cannot_be_are_counted_at_the_most(tmp_path, told):
    limit = Limit("FOUNDRY_EMBEDDINGS_TOKENS_PER_MONTH", "tokens", "month", 200.0)
    store = LocalStore(tmp_path)
    with serving() as there:
        there.mend = lambda answer: answer | {"usage": {"prompt_tokens": told}}
        paid = Endpoint(there.url, "", "embeddings", ledger=Ledger(store, "embeddings", [limit]))
        asked = EmbeddingsEndpoint(paid, "m", DIM, store)
        with pytest.raises(LimitReached):
            for n in range(50):
                asked.answers([f"flood {n}"])
    assert 2 < there.requests < 15
