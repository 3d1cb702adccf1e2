"""A store in a folder that several users of a machine read."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.store.disk import files_below
from tests.core.toy_steps import make, toy_list, toy_scale

_NOBODY = 65534
_RESOLVE = """
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
    print(Version.open(LocalStore(Path(sys.argv[1])), Ref.parse("scaled")).table().num_rows)
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
        assert _as_another(store) == "2\n"


def test_what_another_user_keeps_to_himself_is_named_with_the_remedy():
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        store = LocalStore(Path(place) / "store")
        make(store, toy_list, rows={"a": 1})
        make(store, toy_scale)
        (latest,) = (store.root / "refs/scaled").iterdir()
        latest.chmod(0)
        assert _as_another(store) == (
            f"{latest} cannot be read (Permission denied): it is another user's, who gives the right to all by "
            f"`chmod -R a+rX {store}`\n"
        )


def _as_another(store: LocalStore) -> str:
    """What somebody says of a version who may not read everything, as root may."""
    asked = subprocess.run(
        [sys.executable, "-c", _RESOLVE, str(store), str(_NOBODY)], capture_output=True, text=True, check=False
    )
    return asked.stdout + asked.stderr
