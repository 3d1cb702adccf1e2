from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks import domains
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.corpus.plan_searches import plan_searches
from tests.stores import go, rejects, rows


def test_the_disaster_grid_is_15_050_searches_in_parts(store: LocalStore):
    outcome = go(store, plan_searches)
    found = rows(store, "searches")
    assert len(found) == 15_050 and len({row["search_id"] for row in found}) == 15_050
    assert found[1] == {
        "search_id": short_id("Ammonia Alaska .pdf"),
        "query": "Ammonia Alaska .pdf",
        "plan": "web",
        "terms": [("hazard", "Ammonia"), ("place", "Alaska")],
    }
    assert [part.rows for part in load_manifest(store, Ref.parse("searches")).parts] == [50] * 301
    assert go(store, plan_searches).reused and not outcome.reused


@pytest.fixture
def domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A domain of another kind in a folder of its own, as the configured one."""
    folder = tmp_path / "domains" / "disaster"
    folder.mkdir(parents=True)
    (folder / "intents.toml").write_text("")
    (folder / "search.toml").write_text("[web]\ntemplate = '{crop} pests'\nlists = { crop = 'crops.txt' }\n")
    (folder / "crops.txt").write_text("rice\nmaize\nrice\n")
    monkeypatch.setattr(domains, "_ROOT", tmp_path / "domains")
    return folder


def test_a_query_that_comes_twice_is_searched_once(store: LocalStore, domain: Path):
    go(store, plan_searches)
    assert [row["query"] for row in rows(store, "searches")] == ["rice pests", "maize pests"]
    assert rejects(store, "searches")[short_id("rice pests")]["reason"] == "duplicate_search"


def test_a_new_term_is_a_new_part_and_leaves_the_others(store: LocalStore, domain: Path):
    go(store, plan_searches, part_rows=1)
    before = load_manifest(store, Ref.parse("searches")).parts
    (domain / "crops.txt").write_text("rice\nmaize\nwheat\n")
    assert not go(store, plan_searches, part_rows=1).reused
    after = load_manifest(store, Ref.parse("searches")).parts
    assert after[:2] == before and len(after) == 3
