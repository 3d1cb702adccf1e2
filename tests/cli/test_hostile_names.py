"""A name of a dataset, a version or a store key may come from anybody: none leads out of the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline_tasks.cli.main import app
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.upkeep.gc import find_garbage
from pipeline_tasks.core.upkeep.sync import sync
from pipeline_tasks.core.versions import Version, point, resolve
from tests.core.toy_steps import make, toy_list, toy_scale

HOSTILE = [
    "..",
    "../secret",
    "../../etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "items/../../secret",
    "items/..",
    "items//x",
    "items/",
    "./items",
    "items\\..\\..\\secret",
    "items\x00",
    "items\n",
    "%2e%2e/secret",
    "file:///etc/passwd",
    "s3://bucket/x",
    "items@../../secret",
    "items@latest/../../secret",
    "items@",
    "~/secret",
    "$HOME",
    "items; rm -rf /",
    "İtems",
]
NAMED = [name for name in HOSTILE if "@" not in name]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "secret.json").write_text("a secret")
    store = LocalStore(tmp_path / "store")
    make(store, toy_list, rows={"a": 1})
    monkeypatch.setenv("FOUNDRY_STORE", str(store.root))
    settings.cache_clear()
    return store


@pytest.mark.parametrize("name", HOSTILE)
def test_every_way_in_refuses_it(store, name, tmp_path):
    ways = [
        lambda: Ref.parse(name),
        lambda: Version.open(store, Ref.parse(name)),
        lambda: resolve(store, Ref.parse(name)),
        lambda: plan(store, toy_scale, {}, {"items": [name]}),
        lambda: sync(store, LocalStore(tmp_path / "other"), [name]),
    ]
    for way in ways:
        with pytest.raises(InputError, match="is not DATASET or DATASET@VERSION"):
            way()
    before = sorted(tmp_path.rglob("*"))
    run = ["run", "chunk_passages", "--input", f"documents={name}"]
    for command in (["show", name], ["export", name, str(tmp_path / "out")], run):
        told = CliRunner().invoke(app, command)
        assert isinstance(told.exception, InputError) and "a secret" not in told.output
    listed = CliRunner().invoke(app, ["ls", name])
    assert isinstance(listed.exception, InputError) and "is not in the store" in str(listed.exception)
    assert [path for path in sorted(tmp_path.rglob("*")) if "lineage" not in str(path)] == [
        path for path in before if "lineage" not in str(path)
    ]


@pytest.mark.parametrize("name", NAMED)
def test_a_reference_made_by_hand_is_refused_too(store, name):
    for made in ({"dataset": name}, {"dataset": "items", "version": name}):
        with pytest.raises(InputError, match="is not DATASET or DATASET@VERSION"):
            point(store, Ref(**made))


@pytest.mark.parametrize("inside", ["../../secret", "/etc/passwd", "..", "a\nb"])
def test_a_ref_in_the_store_that_names_another_place_is_told_and_leads_nowhere(store, inside, caplog):
    made = resolve(store, Ref.parse("items"))
    store.replace("refs/items/latest", inside.encode())
    assert Version.open(store, Ref.parse("items")).manifest.ref == made
    assert "leads to no version of it" in caplog.text
    assert not find_garbage(store, keep=1).keys["versions"]
    other = LocalStore(store.root.parent / "other")
    assert not sync(store, other).problems and resolve(other, Ref.parse("items")) == made


def test_a_manifest_whose_parts_lie_elsewhere_is_refused_and_told_in_the_lineage(store):
    version = Version.open(store, Ref.parse("items"))
    bad = version.manifest.parts[0].model_copy(update={"sha256": "../../../secret"})
    manifest = version.manifest.model_copy(update={"parts": [bad]})
    key = f"versions/items/{manifest.id}.json"
    (store.root / key).unlink()
    store.create(key, manifest.to_bytes())
    with pytest.raises(InputError, match="leaves the store"):
        Version.open(store, Ref.parse("items")).table()
    problems = query(store, "SELECT problem FROM problems").to_pylist()
    assert any("leaves the store" in row["problem"] for row in problems)
