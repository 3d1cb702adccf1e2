"""Weights of a hub are those of one commit, which names what is made with them; a branch that moves is noticed."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.fetch import RECORD
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import folder, identity
from tests.models.hub_server import serving

NAME = "all-minilm-l6-v2"
REPOSITORY = get(NAME).hub.id
FILES = {"config.json": b"{}", "1_Pooling/config.json": b"{}", "README.md": b"card", "model.safetensors": b"one"}
OTHERS = FILES | {"model.safetensors": b"two"}


@pytest.fixture(scope="module")
def served():
    with serving() as hub:
        yield hub


@pytest.fixture
def hub(served, tmp_path, monkeypatch):
    """An empty hub, and the profile that asks it."""
    served.clear()
    monkeypatch.setenv("FOUNDRY_PROFILE", "hub")
    monkeypatch.setenv("FOUNDRY_CACHE", str(tmp_path / "cache"))
    settings.cache_clear()
    return served


@pytest.fixture
def pinned(monkeypatch):
    def to(revision: str) -> None:
        monkeypatch.setenv("FOUNDRY_HUB_REVISIONS", f"{NAME}={revision}")
        settings.cache_clear()

    return to


def fetch(hub, **more: str) -> subprocess.CompletedProcess:
    """``foundry models fetch``, which reads the hub's address when it begins."""
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", "models", "fetch", NAME]
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1"} | more
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def pickled(value: object) -> bytes:
    import torch

    data = io.BytesIO()
    torch.save(value, data)
    return data.getvalue()


def test_an_id_that_a_branch_moved_under_holds_the_commit_and_the_move_is_told(hub):
    first = hub.push(REPOSITORY, FILES)
    assert (ran := fetch(hub)).returncode == 0, ran.stderr
    assert sorted(path.name for path in folder(NAME).rglob("*.json")) == ["config.json", "config.json", RECORD]
    assert json.loads((folder(NAME) / RECORD).read_text())["commit"] == first
    assert identity(NAME)["hub"] == f"{REPOSITORY}@{first}"
    second = hub.push(REPOSITORY, OTHERS)
    again = fetch(hub)
    assert again.returncode == 0
    assert f"as of commit {first}" in again.stderr.replace("\n", " ") and second in again.stderr
    assert identity(NAME)["hub"] == f"{REPOSITORY}@{first}"
    assert (folder(NAME) / "model.safetensors").read_bytes() == b"one"
    assert hub.sent["model.safetensors"] == 1
    away = fetch(hub, HF_ENDPOINT="http://127.0.0.1:9")
    assert away.returncode == 0 and str(folder(NAME)) in away.stdout


@pytest.mark.parametrize("moved", [False, True])
def test_a_download_that_was_killed_goes_on_and_leaves_nothing(hub, tmp_path, moved):
    hub.push(REPOSITORY, FILES)
    held = "import sys; from pipeline_tasks.cli.main import main; from pipeline_tasks.models import hub\n"
    held += "hub.shutil.rmtree = lambda *_, **__: (print('there', flush=True), input())\n"
    held += f"sys.argv = ['foundry', 'models', 'fetch', {NAME!r}]; main()"
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1"}
    child = subprocess.Popen(
        [sys.executable, "-c", held], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"there\n"
    child.kill()
    child.communicate()
    after = {name: OTHERS[name] for name in ("config.json", "model.safetensors")} if moved else FILES
    hub.push(REPOSITORY, after)
    assert (ran := fetch(hub)).returncode == 0, ran.stderr
    names = {path.relative_to(folder(NAME)).as_posix() for path in folder(NAME).rglob("*") if path.is_file()}
    assert names == (after.keys() - {"README.md"}) | {RECORD}
    assert (folder(NAME) / "model.safetensors").read_bytes() == after["model.safetensors"]
    assert hub.sent["model.safetensors"] == 1 + moved
    assert [path.name for path in (tmp_path / "cache" / "models").iterdir()] == [NAME]


def test_a_branch_that_was_not_fetched_names_nothing(hub):
    with pytest.raises(InputError, match=f"@main is no commit.*models fetch {NAME}.*FOUNDRY_HUB_REVISIONS={NAME}="):
        identity(NAME)


def test_a_commit_of_the_settings_is_fetched_and_named_and_no_other_is_used(hub, pinned):
    first = hub.push(REPOSITORY, FILES)
    second = hub.push(REPOSITORY, OTHERS)
    pinned(first)
    assert identity(NAME)["hub"] == f"{REPOSITORY}@{first}"
    assert (ran := fetch(hub)).returncode == 0, ran.stderr
    assert (folder(NAME) / "model.safetensors").read_bytes() == b"one"
    pinned(second)
    assert identity(NAME)["hub"] == f"{REPOSITORY}@{second}"
    with pytest.raises(InputError, match=f"is of commit {first}, not {REPOSITORY}@{second}: delete it"):
        folder(NAME)
    assert fetch(hub).returncode == 2


def test_a_setting_that_pins_nothing_is_told(hub, monkeypatch):
    monkeypatch.setenv("FOUNDRY_HUB_REVISIONS", NAME)
    settings.cache_clear()
    with pytest.raises(InputError, match="write NAME=COMMIT"):
        identity(NAME)


def test_no_such_revision_and_no_hub_are_two_errors_and_nothing_is_kept(hub, tmp_path):
    assert (ran := fetch(hub)).returncode == 2
    assert f"the hub has no {REPOSITORY}@main" in ran.stderr
    ran = fetch(hub, HF_ENDPOINT="http://127.0.0.1:9")
    assert ran.returncode == 75 and "the hub did not give" in ran.stderr
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_a_pickle_alone_is_converted_and_one_beside_safetensors_is_not_even_fetched(hub, tmp_path):
    import torch
    from safetensors.torch import load_file

    matrix = torch.arange(6.0).reshape(2, 3).T
    hub.push(REPOSITORY, {"config.json": b"{}", "pytorch_model.bin": pickled({"w": matrix, "tied": matrix})})
    assert (ran := fetch(hub)).returncode == 0, ran.stderr
    assert not list(folder(NAME).glob("*.bin"))
    found = load_file(folder(NAME) / "model.safetensors")
    assert found["w"].tolist() == found["tied"].tolist() == matrix.tolist()
    (tmp_path / "cache").rename(tmp_path / "before")
    hub.push(REPOSITORY, FILES | {"pytorch_model.bin": b"never read"})
    hub.sent.clear()
    assert fetch(hub).returncode == 0
    assert "pytorch_model.bin" not in hub.sent


def test_weights_of_no_kind_are_no_model(hub, tmp_path):
    hub.push(REPOSITORY, {"config.json": b"{}", "pytorch_model-00001-of-00002.bin": b"half"})
    assert (ran := fetch(hub)).returncode == 2
    assert "has neither safetensors nor one pytorch_model.bin" in ran.stderr
    assert not list((tmp_path / "cache").rglob("*.json"))


class Touch:
    """A pickle that touches a file when it is read."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


@pytest.mark.parametrize("pack", [pickled, pickle.dumps])
def test_a_hostile_pickle_runs_nothing_and_leaves_nothing(hub, tmp_path, pack):
    hub.push(REPOSITORY, {"config.json": b"{}", "pytorch_model.bin": pack({"w": Touch(str(tmp_path / "sprung"))})})
    ran = fetch(hub)
    assert ran.returncode == 2
    told = " ".join(ran.stderr.split())
    assert "pytorch_model.bin is damaged, or holds code" in told
    assert "take a revision or a folder with safetensors" in told
    assert not (tmp_path / "sprung").exists()
    assert not list((tmp_path / "cache").rglob("*.json"))
