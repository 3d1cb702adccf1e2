"""A store in a folder that several users of a machine read."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.store.disk import files_below
from tests.core.toy_steps import make, toy_list, toy_scale

_NOBODY = 65534
_READ = "Version.open(store, Ref.parse('scaled')).table().num_rows"
_EVALUATE = """
import os, sys
from pathlib import Path
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version
if os.getuid() == 0:
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
try:
    store = LocalStore(Path(sys.argv[1]))
    print(eval(sys.argv[3]))
except InputError as error:
    print(error)
"""


def test_what_leads_to_an_object_is_read_by_whoever_may_read_that():
    with tempfile.TemporaryDirectory() as place:  # others may not look into what pytest makes
        Path(place).chmod(0o755)
        store = LocalStore(Path(place) / "store")
        make(store, toy_list, rows={"a": 1, "b": 2})
        make(store, toy_scale)
        with store.pinned("mine", b"x"):
            kept_back = [file.path for file in files_below(store.root) if file.stat().st_mode & 0o044 != 0o044]
        assert kept_back == []
        assert _as_another(store, _READ) == "2\n"


def test_what_another_user_keeps_to_himself_is_named_with_the_remedy():
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        store = LocalStore(Path(place) / "store")
        make(store, toy_list, rows={"a": 1})
        make(store, toy_scale)
        (latest,) = (store.root / "refs/scaled").iterdir()
        latest.chmod(0)
        assert _as_another(store, _READ) == _refusal(latest, store)


def test_folders_that_another_user_keeps_to_himself_are_named_with_the_remedy():
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        store = LocalStore(Path(place) / "store")
        make(store, toy_list, rows={"a": 1})
        (folder,) = (store.root / "versions").iterdir()
        (file,) = folder.iterdir()
        folder.chmod(0)
        for listing in ("keys", "entries"):
            assert _as_another(store, f"list(store.{listing}('versions'))") == _refusal(folder, store)
        key = str(file.relative_to(store.root))
        for question in ("exists", "sha256", "local_path", "read"):
            assert _as_another(store, f"store.{question}({key!r})") == _refusal(file, store)
        folder.chmod(0o444)
        assert _as_another(store, "list(store.entries('versions'))") == _refusal(file, store)
        folder.chmod(0o755)


def _refusal(path: Path, store: LocalStore) -> str:
    return (
        f"{path} cannot be read (Permission denied): it is another user's, who gives the right to all by "
        f"`chmod -R a+rX {store}`\n"
    )


def _as_another(store: LocalStore, what: str) -> str:
    """What ``what`` comes to for somebody who may not read everything, as root may."""
    asked = subprocess.run(
        [sys.executable, "-c", _EVALUATE, str(store), str(_NOBODY), what], capture_output=True, text=True, check=False
    )
    return asked.stdout + asked.stderr


@pytest.mark.parametrize("name", ["scratch", "scratch/work"])
@pytest.mark.parametrize("put", [lambda p: p.symlink_to("/no/such/disk"), Path.touch], ids=["link", "file"])
def test_what_stands_where_work_in_progress_should_be_is_told(tmp_path, name, put):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    put(tmp_path / name)
    with pytest.raises(InputError, match=f"the store {tmp_path} cannot be written .*{name}"):
        LocalStore(tmp_path).scratch("work")
