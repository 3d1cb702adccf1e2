"""What an endpoint says of its batch API before anything is begun there."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.paid.endpoint import Endpoint
from pipeline_tasks.core.paid.endpoint.batch_api import BatchApi, NoBatchApi
from tests.synthesis.batch_endpoint import BatchEndpoint


def test_where_batches_are_listed_there_is_a_batch_api():
    with BatchEndpoint(lambda body: "") as there, Endpoint(there.url, "", "m") as endpoint:
        BatchApi(endpoint).check()
        assert not there.batches and not there.files


def test_where_there_is_no_batch_api_the_host_and_the_remedy_are_named():
    with BatchEndpoint(lambda body: "") as there, Endpoint(f"{there.url}/other", "", "m") as endpoint:
        told = f"^{endpoint.host} has no batch API .*: ask at once, without `foundry batch`"
        with pytest.raises(NoBatchApi, match=told):
            BatchApi(endpoint).check()


def test_a_batch_is_found_beyond_the_first_page():
    with BatchEndpoint(lambda body: "") as there, Endpoint(there.url, "", "m") as endpoint:
        for i in range(101):
            there.batches[f"b{i}"] = {"id": f"b{i}", "status": "completed", "metadata": {"foundry": f"name {i}"}}
        assert [BatchApi(endpoint).find(f"name {i}") for i in (100, 1, 0, 101)] == ["b100", "b1", "b0", None]
