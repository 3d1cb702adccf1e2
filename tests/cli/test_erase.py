"""``foundry erase``: what it tells, and what it asks before it is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from pipeline_tasks.cli.main import app
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.pins import MARK
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, load_manifest, manifest_key, resolve
from pipeline_tasks.datasets import EVALUATIONS, PASSAGES
from pipeline_tasks.evaluation.evaluate_retriever import evaluate_retriever
from tests.core.erasure.library import A, everything, fill
from tests.stores import put


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


def evaluated(store: LocalStore, model: str) -> Ref:
    params = evaluate_retriever.parse({}).identity()
    name = f"eval/{model.rpartition('/')[2]}"
    ref = put(store, EVALUATIONS, [], dataset=name, params=params, models=resolve(store, Ref.parse(model)))
    commit(store, load_manifest(store, ref).model_copy(update={"id": "e" * 16, "step": "evaluate_retriever"}))
    return ref.model_copy(update={"version": "e" * 16})


def test_scores_of_dropped_models_are_told_in_a_dry_run_and_go_with_them(foundry, tmp_path):
    store = LocalStore(tmp_path / "store")
    scores, others = (evaluated(store, f"model/33m/{stage}") for stage in ("finetune", "plain"))
    pool = put(store, PASSAGES, [], dataset="corpus/a-dev", params={"depth": 1}, evaluation=scores)
    began, before = f"{scores} was made with such a model", everything(store)

    def versions(*options: str) -> list[str]:
        return [line for line in foundry("erase", A.url, *options).stdout.splitlines() if "@" in line]

    told = [versions("--dry-run")]
    assert everything(store) == before
    told += [versions(), versions("--dry-run", "--drop-models"), versions("--drop-models")]
    assert told[0] == told[1]
    for lines, fate in zip(told, ("", "", "; it would be dropped", "; it is dropped"), strict=True):
        assert len(lines) == 4 and all(f"it{fate}: " in line or f"model{fate}: " in line for line in lines)
        assert any(line.startswith(f"{began}{fate}: foundry run evaluate_retriever --input models=") for line in lines)
    for gone in ("model/33m/pretrain", "model/33m/finetune", "eval/finetune", str(scores)):
        assert isinstance(foundry("show", gone).exception, InputError)
    assert foundry("show", str(others)).exit_code == foundry("show", str(pool)).exit_code == 0


def test_a_drop_that_was_killed_is_finished_by_the_next(foundry, tmp_path, monkeypatch):
    store = LocalStore(tmp_path / "store")
    evaluated(store, "model/33m/finetune")
    assert foundry("erase", A.url).exit_code == 0
    deleted = LocalStore.delete_all

    def killed(self: LocalStore, keys: Iterable[str]) -> None:
        names = list(keys)
        if any(name.startswith("versions/model/") for name in names):
            deleted(self, names[:3])
            raise KeyboardInterrupt
        deleted(self, names)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_all", killed)
        assert foundry("erase", A.url, "--drop-models").exit_code != 0
    assert foundry("erase", A.url, "--drop-models").exit_code == 0
    left = {key.rpartition("/")[0] for name in ("model", "eval") for key in store.keys(f"versions/{name}")}
    assert left == {"versions/model/33m/plain"}


def test_models_are_dropped_before_any_step_begins_again_and_told_before_the_fold(foundry, tmp_path, monkeypatch):
    model = resolve(LocalStore(tmp_path / "store"), Ref.parse("model/33m/finetune"))
    there, delete = [], LocalStore.delete

    def deleting(self: LocalStore, key: str) -> None:
        if key == MARK:
            there.append(self.exists(manifest_key(model)))
        delete(self, key)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStore, "delete", deleting)
    monkeypatch.setattr("pipeline_tasks.cli.erase.fold", killed)
    done = foundry("erase", A.url, "--drop-models")
    assert there == [False], "a step that waited for the erasure would have read it"
    assert f"{model} was trained on it; it is dropped: foundry run finetune" in done.stdout


def test_a_model_that_no_command_makes_again_is_dropped_with_what_makes_it(foundry, tmp_path):
    store = LocalStore(tmp_path / "store")
    model = load_manifest(store, resolve(store, Ref.parse("model/33m/pretrain")))
    started = get_step("pretrain").parse({}).identity() | {"backbone": {"name": "folder-0123456789abcdef"}}
    commit(store, model.model_copy(update={"id": "f" * 16, "step": "pretrain", "params": started}))
    commit(store, model.model_copy(update={"id": "e" * 16, "step": "of_old", "params": {"rate": 0.5}}))
    done = foundry("erase", A.url, "--drop-models")
    told = {line[:36]: line for line in done.stdout.splitlines()}
    (read,) = model.inputs["input0"]
    folder, old = told[f"model/33m/pretrain@{'f' * 16} "], told[f"model/33m/pretrain@{'e' * 16} "]
    assert done.exit_code == 0 and f"it is dropped: foundry run pretrain --input input0={read} --set " in folder
    assert "backbone=FOLDER  # FOLDER: the path of" in folder and folder.endswith("(folder-0123456789abcdef)")
    assert "it is dropped: no command makes it again as it was" in old and "foundry show" not in old
    assert old.endswith(f'; run of_old with {{"inputs":{{"input0":["{read}"]}},"params":{{"rate":0.5}}}}')


def test_what_is_no_id_or_address_is_refused(foundry):
    told = foundry("erase", "my document").exception
    assert isinstance(told, InputError) and "'my document' is no id, sha256 or address" in str(told)
