from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.local_files import path_of
from pipeline_tasks.corpus.source import Entry, entries

_NOBODY = 65534
_READ = """
import os, sys
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.corpus.source import entries
if os.getuid() == 0:
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
try:
    print(len(list(entries(sys.argv[1], 1000, 1.0))))
except InputError as error:
    print(error)
"""


def found(source: str) -> list[Entry]:
    return list(entries(source, max_bytes=1000, time_limit_s=1.0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two PDFs, one of them in a folder below."""
    return pdfs_in(tmp_path)


def pdfs_in(place: Path) -> Path:
    (place / "pdfs/deep").mkdir(parents=True)
    for name in ("a.pdf", "deep/b.pdf"):
        (place / "pdfs" / name).write_bytes(b"%PDF-1.7")
    return place / "pdfs"


@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_folder_that_cannot_be_read_ends_the_listing(mode):
    with tempfile.TemporaryDirectory() as place:  # others may not look into what pytest makes
        Path(place).chmod(0o755)
        folder = pdfs_in(Path(place))
        (folder / "deep").chmod(mode)
        try:
            said = _as_another(folder)
        finally:
            (folder / "deep").chmod(0o755)
        assert f"{folder}/deep cannot be read: Permission denied; give this process the right" in said
        assert _as_another(folder).strip() == "2"


def _as_another(folder: Path) -> str:
    """What somebody says who may not read everything, as root may."""
    asked = subprocess.run(
        [sys.executable, "-c", _READ, str(folder), str(_NOBODY)], capture_output=True, text=True, check=False
    )
    return asked.stdout + asked.stderr


def test_a_folder_has_the_same_addresses_however_it_is_named(folder: Path, tmp_path: Path, monkeypatch):
    wanted = [Entry("a.pdf", (folder / "a.pdf").as_uri()), Entry("deep/b.pdf", (folder / "deep/b.pdf").as_uri())]
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to(folder / "deep")
    monkeypatch.chdir(tmp_path / "work")
    for source in (str(folder), "../pdfs", f"{folder}/deep/..", f"{tmp_path}/link/..", "../work/../pdfs/"):
        assert found(source) == wanted, source
    (tmp_path / "work/list.txt").write_text("../pdfs/a.pdf\n")
    assert [entry.url for entry in found("../work/list.txt")] == [wanted[0].url]


def test_a_name_that_is_no_utf8_has_a_place_and_an_address(folder: Path):
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.pdf"))
    odd.write_bytes(b"%PDF-1.7")
    entry = next(entry for entry in found(str(folder)) if entry.place.startswith("caf"))
    assert entry.place == "caf\\xe9.pdf" and path_of(entry.url) == odd


def test_linked_folders_are_looked_into_once_and_what_has_a_place_of_its_own_keeps_its_address(folder, tmp_path):
    (tmp_path / "archive" / "2024").mkdir(parents=True)
    (tmp_path / "archive" / "2024" / "c.pdf").write_bytes(b"%PDF-1.7")
    for link, target in {"0": folder / "deep", "old": tmp_path / "archive", "old2": tmp_path / "archive"}.items():
        (folder / link).symlink_to(target)
    (tmp_path / "archive" / "round").symlink_to(folder)
    assert [entry.place for entry in found(str(folder))] == ["a.pdf", "deep/b.pdf", "old/2024/c.pdf"]


def test_what_is_linked_from_several_places_has_the_address_of_the_first_one_by_name(folder: Path, tmp_path: Path):
    (tmp_path / "annex").mkdir()
    (tmp_path / "annex" / "c.pdf").write_bytes(b"%PDF-1.7")
    for year in map(str, [*range(2010, 2030, 2), *range(2001, 2030, 2)]):
        (folder / year).mkdir()
        (folder / year / "annex").symlink_to(tmp_path / "annex")
    assert [entry.place for entry in found(str(folder))] == ["2001/annex/c.pdf", "a.pdf", "deep/b.pdf"]


def test_a_pdf_whose_link_leads_to_nothing_is_told(folder, tmp_path):
    (folder / "c.PDF").symlink_to(tmp_path / "away/c.pdf")
    (folder / "d.pdf").symlink_to("d.pdf")
    assert [(entry.place, entry.reason) for entry in found(str(folder))] == [
        ("a.pdf", ""),
        ("c.PDF", "missing_file"),
        ("d.pdf", "missing_file"),
        ("deep/b.pdf", ""),
    ]


def test_a_link_that_may_have_led_to_a_folder_ends_the_listing(folder, tmp_path):
    (tmp_path / "away").mkdir()
    (tmp_path / "away/c.pdf").touch()
    (folder / "deep/old.2024").symlink_to(tmp_path / "away")
    (folder / "notes.txt").symlink_to(folder / "a.pdf")
    for name in (".#notes.txt", ".#a.pdf"):  # an editor's locks
        (folder / name).symlink_to("somebody@host.1234")
    assert [entry.place for entry in found(str(folder))] == ["a.pdf", "deep/b.pdf", "deep/old.2024/c.pdf"]
    (tmp_path / "away").rename(tmp_path / "unmounted")
    told = f"the link {folder}/deep/old.2024 leads to nothing that is there: mount what it leads to, or take the link"
    with pytest.raises(InputError, match=re.escape(told)):
        found(str(folder))


@pytest.mark.parametrize("name", ["c.pdf", "old"])
def test_a_link_that_cannot_be_looked_at_ends_the_listing(folder, name):
    (folder / "deep" / name).symlink_to("x" * 1000)
    with pytest.raises(InputError, match=f"the folder {folder}/deep cannot be read: File name too long"):
        found(str(folder))
