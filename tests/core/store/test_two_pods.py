"""Pods that share a volume or a copied folder, and so a machine's id, do not share its locks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_tasks.core.store import local as local_module
from pipeline_tasks.core.store import open_store
from pipeline_tasks.core.store.local import LocalStore
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.conftest import CACHE_BYTES

ROUNDS = 15
POD = """
import sys
from pathlib import Path
from pipeline_tasks.core.store.s3 import S3Store

address, caches, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
store = S3Store(address, caches, 1 << 30, lease_s=30)
store.folder.mkdir(parents=True, exist_ok=True)
(store.folder / "machine").write_text("one id for all")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[4])):
    with store.alone("work"):
        if not store.create("inside", name.encode()):
            sys.exit(f"{name} came in while {store.read('inside')} was inside")
        for _ in range(10):
            assert store.read("inside") == name.encode(), "another holder left in our place"
        store.delete("inside")
"""


@pytest.fixture
def pods(s3: S3Store, tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes with folders of their own, and in them one machine id; ready to begin."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", POD, str(s3), str(tmp_path / name), name, str(ROUNDS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    yield started
    for pod in started:
        pod.kill()
        pod.communicate()


def test_two_pods_with_one_machine_id_take_over_each_others_lease(pods):
    assert [pod.stdout.readline() for pod in pods] == ["ready\n"] * 2
    for pod in pods:
        pod.stdin.write("go\n")
        pod.stdin.flush()
    told = [pod.communicate(timeout=120)[1] for pod in pods]
    assert [(pod.returncode, text) for pod, text in zip(pods, told, strict=True)] == [(0, "")] * 2


def holder_in_child(folder: Path) -> str:
    code = f"from pipeline_tasks.core.store.local import LocalStore; print(LocalStore({str(folder)!r}).holder())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_processes_that_one_local_lock_keeps_apart_are_one_holder(tmp_path):
    assert LocalStore(tmp_path).holder() == holder_in_child(tmp_path) == LocalStore(tmp_path).holder()


def test_a_copied_folder_is_another_holder(tmp_path):
    one, two = LocalStore(tmp_path / "one"), LocalStore(tmp_path / "two")
    one.holder()
    two.create("machine", (tmp_path / "one" / "machine").read_bytes())
    assert one.read("machine") == two.read("machine")
    assert one.holder() != two.holder()


@pytest.mark.parametrize("boot_id", ["another kernel", ""])
def test_one_folder_seen_by_two_kernels_has_two_holders(tmp_path, monkeypatch, boot_id):
    here = LocalStore(tmp_path / "shared").holder()
    (tmp_path / "boot_id").write_text(boot_id)
    monkeypatch.setattr(local_module, "BOOT_ID", tmp_path / "boot_id")
    there = LocalStore(tmp_path / "shared")
    assert there.holder() != here
    if not boot_id:
        assert there.holder() != holder_in_child(tmp_path / "shared"), "a kernel without a name promises nothing"


def test_work_in_progress_may_outlive_a_pods_own_folder(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_SCRATCH", str(tmp_path / "volume"))
    first = open_store()
    (first.scratch("training") / "checkpoint").write_bytes(b"step 100")
    second = S3Store(str(s3), tmp_path / "another node", CACHE_BYTES, scratch=tmp_path / "volume")
    assert (second.scratch("training") / "checkpoint").read_bytes() == b"step 100"
    assert not second.folder.exists(), "caches, locks and temporary files stay on the node"
    second.drop_scratch("training")
    assert not list(second.scratches.iterdir())
