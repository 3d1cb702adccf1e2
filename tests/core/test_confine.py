"""Each layer alone takes what it says it takes, and a machine without it is told so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline_tasks.core.confine import CALLS, FILES, NAMESPACE, held_here

BEFORE = """
import os, socket, subprocess, sys
from pathlib import Path
from pipeline_tasks.core import confine
from pipeline_tasks.core.confine import files, system_calls
from pipeline_tasks.core.confine.libc import libc
libc().prctl(38, 1, 0, 0, 0)
listener = socket.create_server(("127.0.0.1", 0))

def tell(what):
    try:
        print(what() or "done")
    except OSError as error:
        print(type(error).__name__)
"""


def told(program: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", BEFORE + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_in_a_namespace_nothing_answers_and_others_environments_are_closed():
    if NAMESPACE not in held_here():
        pytest.skip("this system allows no namespaces of users")
    program = """
assert confine.leave_network()
tell(lambda: socket.create_connection(listener.getsockname()))
tell(Path(f"/proc/{os.getppid()}/environ").read_bytes)
"""
    assert told(program) == ["OSError", "PermissionError"]


def test_the_filter_alone_denies_sockets_and_new_namespaces_and_leaves_programs_and_threads():
    assert CALLS in held_here()
    program = """
import threading
assert system_calls.restrict()
tell(socket.socket)
tell(socket.socketpair)
tell(lambda: listener.listen() and None)
tell(os.setsid)
done = subprocess.run(["unshare", "--user", "true"], capture_output=True)
print(done.returncode != 0)
thread = threading.Thread(target=lambda: print("thread"))
thread.start()
thread.join()
"""
    assert told(program) == ["PermissionError"] * 4 + ["True", "thread"]


def test_landlock_alone_leaves_what_was_named(tmp_path):
    if FILES not in held_here():
        pytest.skip("this kernel has no Landlock")
    for name in ("open", "shut"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    program = """
folder = Path(sys.argv[1])
assert files.restrict([folder / "open", folder / "missing"])
for name in ("open", "shut"):
    tell((folder / name / "file").read_text)
    tell(lambda: (folder / name / "file").write_text("other"))
tell(lambda: (folder / "open" / "file").unlink())
tell(lambda: Path(os.devnull).write_text("nothing") and None)
tell(lambda: os.kill(os.getppid(), 0))
tell(Path(f"/proc/{os.getppid()}/environ").read_bytes)
"""
    refused = "PermissionError"
    assert told(program, str(tmp_path))[:6] == ["open", refused, refused, refused, refused, "done"]
    assert told(program, str(tmp_path))[-1] == refused


def test_root_keeps_no_rights():
    program = """
confine.confine([Path("/proc")])
status = Path("/proc/self/status").read_text()
print(*(line.split()[1] for line in status.splitlines() if line.startswith(("CapPrm", "CapEff", "NoNewPrivs"))))
"""
    assert told(program) == ["0000000000000000 0000000000000000 1"]
