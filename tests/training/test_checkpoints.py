"""A folder of checkpoints holds the newest whole one, whatever was being written when the process died."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store.disk import shortage
from pipeline_tasks.training.checkpoints import Progress, broadcast_checkpoint, load, load_best, save, save_best
from pipeline_tasks.training.parallel.peers import ALONE
from tests.disks import small_disk


def commit(folder, step: int, best_step: int | None = None) -> None:
    score = None if best_step is None else 0.5
    progress = Progress(step, [1.0] * step, [(step, 0.5)], best_step, score)
    save(folder, "run", progress, {"w": torch.full((2,), float(step))}, {"state": {}, "param_groups": []})


def test_round_trip_and_only_the_newest_is_kept(tmp_path) -> None:
    save_best(tmp_path, 2, {"w": torch.ones(1)})
    commit(tmp_path, 2, best_step=2)
    commit(tmp_path, 10, best_step=2)
    progress, weights, _ = load(tmp_path, "run")
    assert progress == Progress(10, [1.0] * 10, [(10, 0.5)], 2, 0.5)
    assert weights["w"].tolist() == [10.0, 10.0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best-00000002.pt", "step-00000010.pt"]


def test_death_while_writing_leaves_the_one_before(tmp_path) -> None:
    save_best(tmp_path, 1, {"w": torch.ones(1)})
    commit(tmp_path, 1, best_step=1)
    save_best(tmp_path, 2, {"w": torch.zeros(1)})
    (tmp_path / "step-00000002.part").write_bytes(b"half a checkpo")
    broadcast_checkpoint(tmp_path, ALONE)
    assert load(tmp_path, "run")[0].step == 1
    assert load_best(tmp_path, 1)["w"].item() == 1.0
    assert not list(tmp_path.glob("*.part"))
    commit(tmp_path, 2, best_step=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best-00000002.pt", "step-00000002.pt"]


def test_a_checkpoint_that_the_disk_has_no_room_for_leaves_nothing(tmp_path) -> None:
    with small_disk(tmp_path / "small", "64k") as small:
        commit(small, 1)
        with pytest.raises(RuntimeError) as full:
            save_best(small, 2, {"w": torch.ones(1 << 15)})
        assert shortage(full.value)
        assert [path.name for path in small.iterdir()] == ["step-00000001.pt"]


@pytest.mark.parametrize("damage", ["cut off", "empty", "zeros", "other bytes"])
def test_a_damaged_checkpoint_is_told_with_a_remedy_that_works(tmp_path, damage) -> None:
    save_best(tmp_path, 1, {"w": torch.ones(1)})
    commit(tmp_path, 1, best_step=1)
    for path in tmp_path.iterdir():
        whole = path.read_bytes()
        changed = {"cut off": whole[: len(whole) // 2], "empty": b"", "zeros": bytes(len(whole))}
        path.write_bytes(changed.get(damage, b"other" * 99))
    remedy = r"\.pt is damaged \(.*\): delete the \.pt files of that folder, and the training begins again"
    with pytest.raises(InputError, match="step-00000001" + remedy):
        load(tmp_path, "run")
    with pytest.raises(InputError, match="best-00000001" + remedy):
        load_best(tmp_path, 1)
    for path in tmp_path.glob("*.pt"):
        path.unlink()
    assert load(tmp_path, "run") is None


def test_a_whole_checkpoint_is_not_blamed_for_want_of_memory(tmp_path, monkeypatch) -> None:
    def full(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    save_best(tmp_path, 1, {"w": torch.ones(1)})
    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(RuntimeError, match="can't allocate"):
        load_best(tmp_path, 1)


def test_nothing_yet_is_none(tmp_path) -> None:
    assert load(tmp_path, "run") is None


def test_other_runs_are_refused(tmp_path) -> None:
    commit(tmp_path, 1)
    with pytest.raises(InputError, match="another run"):
        load(tmp_path, "walk")


TAKES_HALF = """
import re, sys
from pathlib import Path
from pipeline_tasks.training.checkpoints import load

def held_kib():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

small, large = map(Path, sys.argv[1:])
load(small, "run")  # what the first one imports is not the checkpoint's
before = held_kib()
_, _, optimizer = load(large, "run")
n = len(optimizer["exp_avg"]) // 2
half = optimizer["exp_avg"][:n].clone()
print((held_kib() - before) // 1024, int(half.sum()))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read off /proc")
def test_a_process_that_takes_half_of_a_checkpoint_holds_no_more(tmp_path) -> None:
    """In a process of its own: here the allocator would give it what earlier tests let go."""
    folders = {1: tmp_path / "small", 1 << 24: tmp_path / "large"}
    for n, folder in folders.items():
        folder.mkdir()
        save(folder, "run", Progress(step=1), {"weight": torch.ones(n)}, {"exp_avg": torch.ones(n)})
    command = [sys.executable, "-c", TAKES_HALF, *map(str, folders.values())]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    held_mib, total = map(int, told.split())
    assert total == 1 << 23
    assert 24 <= held_mib <= 48, "half of a tensor of 64 MiB, of two"
