from __future__ import annotations

import json

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, load_manifest, point
from pipeline_tasks.datasets import NEEDS
from tests.cli.test_inspect import foundry
from tests.stores import put


def test_what_non_commercial_weights_made_is_marked_wherever_it_is_shown(tmp_path):
    store = LocalStore(tmp_path / "store")
    for dataset, licence in (("rankings/free", "MIT"), ("rankings/closed", "CC-BY-NC-4.0")):
        plain = load_manifest(store, put(store, NEEDS, [{"need_id": "n"}], dataset="plain"))
        made = plain.model_copy(update={"dataset": dataset, "licences": {"a-model": licence}})
        commit(store, made)
        point(store, Ref(dataset=dataset, version=made.id))
    marked = [line.split()[0] for line in foundry(store.root, "ls").splitlines() if " NC " in line]
    assert marked == ["rankings/closed"]
    assert "made with a-model: CC-BY-NC-4.0  non-commercial" in foundry(store.root, "show", "rankings/closed")
    assert "non-commercial" not in foundry(store.root, "show", "rankings/free")
    foundry(store.root, "export", "rankings/closed", str(tmp_path / "out"))
    assert json.loads((tmp_path / "out/LICENCES.json").read_text()) == {"a-model": "CC-BY-NC-4.0"}
    foundry(store.root, "export", "plain", str(tmp_path / "plain"))
    assert not (tmp_path / "plain/LICENCES.json").exists()
