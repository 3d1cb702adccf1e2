"""A disk without space: told with a remedy, tried again later, nothing half-made left and nothing finished lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pipeline_tasks.core.errors import EXIT_RETRY, TransientError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.store.disk import space_beside, space_in
from pipeline_tasks.core.store.s3 import S3Store
from tests.core.toy_steps import make, rows_of, toy_list, toy_scale
from tests.disks import small_disk
from tests.stores import put_part

ROOT = Path(__file__).parents[3]
MIB = 1 << 20


def left(store: LocalStore) -> list[Path]:
    return list(store.root.glob("tmp/*"))


def test_a_full_disk_ends_a_step_which_goes_on_once_there_is_space(tmp_path):
    with small_disk(tmp_path / "small", "4m") as small:
        store = LocalStore(small / "store")
        make(store, toy_list, rows={f"item{n}": n % 5 for n in range(50)})
        ballast = small / "ballast"
        with pytest.raises(OSError, match="No space left"):
            ballast.write_bytes(bytes(8 * MIB))
        with pytest.raises(TransientError, match=r"no space .*: the disk is full, 0 bytes .*`foundry gc") as told:
            make(store, toy_scale)
        assert str(small) in str(told.value) and not left(store) and not list(store.keys("versions/scaled"))
        with pytest.raises(TransientError, match="no space is left"):
            store.create("a/b", b"x" * 4096)
        with pytest.raises(TransientError, match="no space is left"):
            store.replace("a/b", b"x" * 4096)
        with pytest.raises(TransientError, match="no space is left"):
            put_part(store, bytes(MIB))
        assert not left(store) and not store.exists("a/b")
        ballast.unlink()
        make(store, toy_scale)
        assert len(rows_of(store, "scaled")) == 50


def test_a_limit_on_files_ends_the_command_with_the_code_for_another_try(tmp_path):
    environment = os.environ | {
        "FOUNDRY_STORE": str(tmp_path / "store"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests" / "dags"))),
    }

    def count(limit: str) -> subprocess.CompletedProcess[str]:
        run = f"ulimit -f {limit}; exec {sys.executable} -m toys.cli run count --set parts=40"
        return subprocess.run(["bash", "-c", run], env=environment, capture_output=True, text=True, check=False)

    ended = count("1")
    assert ended.returncode == EXIT_RETRY, ended.stderr
    assert ended.stderr.strip().splitlines()[-1].startswith(f"foundry: no space is left in {tmp_path / 'store'}")
    assert "ulimit -f" in ended.stderr and "Traceback" not in ended.stderr
    assert not left(LocalStore(tmp_path / "store"))
    assert count("unlimited").returncode == 0


@pytest.mark.parametrize("library", ["torch", "safetensors", "python"])
def test_whatever_library_writes_it_is_told_alike(tmp_path, library):
    data = np.random.default_rng(0).random(MIB)

    def write(path: Path) -> None:
        if library == "safetensors":
            save_file({"data": torch.from_numpy(data)}, path)
            return
        with path.open("wb") as file:
            if library == "torch":
                torch.save({"data": torch.from_numpy(data)}, file)
            else:
                file.write(data)

    with small_disk(tmp_path / "small", "1m") as small:
        with pytest.raises(TransientError, match="the disk is full"), space_in(tmp_path, small):
            write(small / "x")


def test_a_full_disk_of_work_in_progress_is_the_one_that_is_named(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of nobody")
    with small_disk(tmp_path / "work", "64k") as work:
        store = S3Store("s3://bucket/prefix", tmp_path / "caches", MIB, scratch=work)
        with pytest.raises(TransientError, match=f"no space is left in {work}.*FOUNDRY_SCRATCH"), space_beside(store):
            (store.scratch("training") / "checkpoint").write_bytes(bytes(MIB))


def test_other_errors_are_what_they_were(tmp_path):
    with pytest.raises(FileNotFoundError), space_in(tmp_path):
        (tmp_path / "none").read_bytes()
    with pytest.raises(ValueError, match="odd"), space_in(tmp_path):
        raise ValueError("odd")
