"""``foundry erase``: what it tells, and what it asks before it is believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from pipeline_tasks.cli.main import app
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, load_manifest, resolve
from tests.core.erasure.library import A, fill


@pytest.fixture
def foundry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    fill(LocalStore(tmp_path / "store"))
    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "200")
    settings.cache_clear()
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_a_takedown_request_from_dry_run_to_models(foundry):
    before = foundry("erase", "https://EXAMPLE.org:443/a.pdf#page=2", "--dry-run")
    assert before.exit_code == 0 and "passages" in before.stdout
    assert A.doc_id in foundry("sql", "SELECT doc_id FROM documents", "--format", "csv").stdout
    done = foundry("erase", A.url)
    assert done.exit_code == 0, done.stdout
    model = next(line for line in done.stdout.splitlines() if line.startswith("model/33m/pretrain@"))
    name, _, command = model.partition(" was trained on it: ")
    assert command.startswith("foundry run finetune --input input0=mtt/0.75@")
    assert "--drop-models" in done.stdout.splitlines()[-1]
    assert foundry("check").exit_code == 0
    assert A.doc_id not in foundry("sql", "SELECT doc_id FROM documents", "--format", "csv").stdout
    dropped = foundry("erase", A.url, "--drop-models")
    assert dropped.exit_code == 0 and "it is dropped" in dropped.stdout
    assert isinstance(foundry("show", name).exception, InputError)
    assert foundry("show", "model/33m/plain").exit_code == 0


def test_a_model_that_no_command_makes_again_is_dropped_and_named(foundry, tmp_path):
    store = LocalStore(tmp_path / "store")
    model = load_manifest(store, resolve(store, Ref.parse("model/33m/pretrain")))
    started = get_step("pretrain").parse({}).identity() | {"backbone": {"name": "folder-0123456789abcdef"}}
    commit(store, model.model_copy(update={"id": "f" * 16, "step": "pretrain", "params": started}))
    done = foundry("erase", A.url, "--drop-models")
    told = next(line for line in done.stdout.splitlines() if line.startswith(f"model/33m/pretrain@{'f' * 16}"))
    assert done.exit_code == 0 and "it is dropped: no command makes it again as it was" in told
    assert "folder-0123456789abcdef" in told and "foundry run" not in told


def test_what_is_no_id_or_address_is_refused(foundry):
    told = foundry("erase", "my document").exception
    assert isinstance(told, InputError) and "'my document' is no id, sha256 or address" in str(told)
