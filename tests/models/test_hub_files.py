"""Ranges of files on the hub: each is asked for once, and what is no range is told."""

from __future__ import annotations

import io

import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.hub_files import DataFiles, data_commit
from tests.models.hub_server import asked_here, serving

ID, PATH = "someone/set", "data/one.bin"
DATA = bytes(range(256)) * 4
URL = "/datasets/someone/set/resolve/{}/data/one.bin"


@pytest.fixture(scope="module")
def served():
    with serving() as hub:
        yield hub


@pytest.fixture
def hub(served, monkeypatch):
    served.clear()
    asked_here(served, monkeypatch)
    return served


@pytest.fixture
def files(hub, tmp_path):
    spent: list[int] = []
    found = DataFiles(ID, hub.push(ID, {PATH: DATA}), tmp_path, spent.append)
    return found, spent


def test_a_file_is_read_by_ranges_and_a_range_is_asked_for_once(hub, files):
    data_files, spent = files
    assert data_files.sizes == {PATH: len(DATA)}
    for _ in range(2):
        with data_files.open(PATH) as file:
            file.seek(-10, io.SEEK_END)
            assert file.read(100) == DATA[-10:] and file.read(1) == b""
            assert file.seek(3) == 3 and file.read(4) == DATA[3:7] and file.tell() == 7
    assert spent == [10, 4] and hub.bytes_sent[URL.format(data_files.commit)] == 14


def test_a_range_that_a_power_cut_left_short_is_asked_for_again(hub, files, tmp_path):
    data_files, spent = files
    assert data_files.read(PATH, 0, 8) == DATA[:8]
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(b"12")
    assert data_files.read(PATH, 0, 8) == DATA[:8] and spent == [8, 8]


def test_a_busy_hub_is_asked_again_and_one_that_is_away_is_no_fault_of_the_input(hub, files, monkeypatch):
    data_files, _ = files
    hub.failures.append(503)
    assert data_files.read(PATH, 0, 8) == DATA[:8] and hub.failures == []
    with pytest.raises(TransientError, match="did not give data set someone/set@other"):
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
        data_commit(ID, "other")


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [(200, InputError, "gives no part of data/one.bin, only all of it: download it with `hf download`"),
     (206, TransientError, r"0 bytes of data/one.bin came, 8 were asked for"),
     (404, InputError, "the hub has no data/one.bin of data set someone/set@")],
)  # fmt: skip
def test_what_is_no_range_is_told_and_not_kept(hub, files, tmp_path, status, error, message):
    hub.failures.append(status)
    with pytest.raises(error, match=message):
        files[0].read(PATH, 0, 8)
    assert not list(tmp_path.iterdir())


def test_a_gated_set_wants_a_token_that_the_settings_have(hub, files, monkeypatch):
    hub.gated[ID] = "of-mine"
    with pytest.raises(InputError, match="who accepted its terms: accept them on its page, and set HF_TOKEN"):
        files[0].read(PATH, 0, 8)
    monkeypatch.setenv("HF_TOKEN", "of-mine")
    settings.cache_clear()
    assert files[0].read(PATH, 0, 8) == DATA[:8]
    monkeypatch.undo()
    settings.cache_clear()


def test_a_branch_is_asked_for_its_commit_and_a_commit_is_not(hub):
    commit = hub.push(ID, {PATH: DATA})
    assert data_commit(ID, "main") == commit
    assert data_commit("no/where", "a" * 40) == "a" * 40
    with pytest.raises(InputError, match="the hub has no data set someone/set@gone, or it wants a token"):
        data_commit(ID, "gone")
