"""``list_urls`` over what searches found, beside a source or without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.corpus.list_urls import list_urls
from pipeline_tasks.datasets import SEARCH_RESULTS
from tests.stores import go, put, rows


def results(store: LocalStore, *found: tuple[str, str, str]) -> Ref:
    """Results as (search, provider, url)."""
    put_rows = [
        {
            "result_id": short_id(search, provider, url),
            "search_id": short_id(search),
            "provider": provider,
            "rank": rank,
            "url_id": short_id(url),
            "url": url,
        }
        for rank, (search, provider, url) in enumerate(found, 1)
    ]
    return put(store, SEARCH_RESULTS, put_rows)


def listed(store: LocalStore) -> dict[str, str]:
    return {row["url"]: row["source"] for row in rows(store, "urls")}


A, B, C = (f"https://example.org/{name}.pdf" for name in "abc")


def test_an_address_that_several_searches_found_is_listed_once_with_who_named_it(store: LocalStore):
    results(store, ("flood Ohio", "searxng", A), ("flood Iowa", "searxng", A), ("flood Iowa", "brave", A))
    outcome = go(store, list_urls)
    assert listed(store) == {A: "brave"}
    assert outcome.counters["results_listed_before"] == 2
    assert rows(store, "urls")[0]["url_id"] == short_id(A)


def test_a_source_and_results_stand_beside_each_other(store: LocalStore, tmp_path: Path):
    results(store, ("flood", "brave", A), ("flood", "brave", B))
    (tmp_path / "list.txt").write_text(f"{B}\n{C}\n")
    source = str(tmp_path / "list.txt")
    go(store, list_urls, source=source)
    assert listed(store) == {A: "brave", B: source, C: source}
    go(store, list_urls, {"results": []}, source=source)
    assert set(listed(store)) == {B, C}


def test_results_of_several_providers(store: LocalStore):
    one, other = results(store, ("flood", "brave", A)), results(store, ("*.x.org", "common_crawl", B))
    go(store, list_urls, {"results": [str(one), str(other)]})
    assert listed(store) == {A: "brave", B: "common_crawl"}


def test_another_rank_or_search_moves_no_address_that_is_listed(store: LocalStore):
    results(store, ("flood", "brave", A), ("flood", "brave", B))
    go(store, list_urls)
    before = load_manifest(store, Ref.parse("urls"))
    results(store, ("fire", "brave", B), ("flood", "brave", A), ("flood", "brave", B))
    assert go(store, list_urls).reused
    results(store, ("fire", "brave", C), ("flood", "brave", A), ("flood", "brave", B))
    go(store, list_urls)
    after = load_manifest(store, Ref.parse("urls"))
    assert after.parts[: len(before.parts)] == before.parts and not after.removals


def test_neither_a_source_nor_results_is_the_callers_mistake(store: LocalStore):
    with pytest.raises(InputError, match="has no addresses; set source, or give it the input results of search_web"):
        go(store, list_urls)
