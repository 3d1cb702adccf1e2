"""What a reader that a hostile file has taken over can do: nothing that leaves its worker."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys

import pytest

from pipeline_tasks.corpus.pdf.model import Unreadable
from pipeline_tasks.corpus.workers import Limits, run_limited
from tests.corpus.misbehaving import obey

LIMITS = Limits(60)
SECRET = "sk-nobody-may-read-this"
NO_RESULT = Unreadable("crashed", "what the reader said is no result")
IN_A_PROCESS_WITH_SECRETS = """
import json, os
from pathlib import Path
from pipeline_tasks.corpus.workers import Limits, run_limited
from tests.corpus.misbehaving import obey
orders = [b"environment", f"read /proc/{os.getpid()}/environ".encode(), b"hang"]
results = run_limited(obey, orders, 1, Limits(60))
seen = next(results)
worker = Path(f"/proc/{results.gi_frame.f_locals['crew'][0].process.pid}/environ").read_text()
print(json.dumps([seen, worker, str(next(results))]))
"""


def outcome(order: str) -> object:
    return next(run_limited(obey, [order.encode()], 1, LIMITS))


def test_it_does_not_see_the_secrets_of_its_parent():
    secret = os.environ | {"AWS_SECRET_ACCESS_KEY": SECRET, "OPENAI_API_KEY": SECRET, "FOUNDRY_STORE": SECRET}
    program = [sys.executable, "-c", IN_A_PROCESS_WITH_SECRETS]
    done = subprocess.run(program, env=secret, capture_output=True, text=True, check=True)
    environment, from_outside, parents = json.loads(done.stdout)
    assert "PATH" in environment and "FOUNDRY" not in environment and SECRET not in environment
    assert "PATH" in from_outside and SECRET not in from_outside
    assert "PermissionError" in parents


def test_it_cannot_connect_to_this_machine():
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused = outcome(f"connect {server.getsockname()[1]}")
    assert isinstance(refused, Unreadable) and "PermissionError" in refused.detail


def test_it_cannot_connect_to_a_socket_on_the_file_system(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(tmp_path / "docker.sock"))
        server.listen()
        assert "PermissionError" in outcome(f"unix {tmp_path / 'docker.sock'}").detail


@pytest.mark.parametrize("verb", ["read", "write"])
def test_it_opens_no_file_beside_its_libraries(tmp_path, verb):
    (tmp_path / "credentials").write_text(SECRET)
    assert "PermissionError" in outcome(f"{verb} {tmp_path / 'credentials'}").detail
    assert (tmp_path / "credentials").read_text() == SECRET


def test_it_cannot_end_its_parent_nor_leave_its_group():
    assert "PermissionError" in outcome(f"terminate {os.getpid()}").detail
    assert "PermissionError" in outcome("leave").detail


def test_what_it_says_is_not_run_by_its_parent(tmp_path):
    trap = b"\x80\x04cos\nmkdir\n\x8c%c%b\x85R." % (len(mark := bytes(tmp_path / "mark")), mark)
    for words in (trap, pickle.dumps(0.1, 4) + trap):
        assert outcome(f"say {words.decode('latin-1')}") == NO_RESULT
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "said",
    [
        "[" * 100_000 + "]" * 100_000,
        '[0.1, {"reason": %s}]' % ("[" * 100_000 + "]" * 100_000),
        '[0.1, {"reason": ["timeout"]}]',
        '[0.1, {"reason": "timeout", "detail": 7}]',
        '[0.1, {"title": "", "text": [], "page_starts": [0], "n_pages": 1, "n_words": 90}]',
        '[0.1, {"title": "", "text": "", "page_starts": [[0]], "n_pages": 1, "n_words": 90}]',
        '[0.1, {"title": "", "text": "", "page_starts": [0], "n_pages": 1, "n_words": 90, "asides": [[]]}]',
        '["0.1", null]',
        "[0.1, [0]]",
        "",
    ],
    ids=range(10),
)
def test_what_it_says_has_fields_of_their_own_types_or_is_no_result(said):
    assert outcome(f"say {said}") == NO_RESULT


def test_what_it_starts_is_confined_as_well():
    program = "import os, socket; print(sorted(os.environ))\ntry: socket.socket()\nexcept PermissionError: print('no')"
    assert "no" in outcome(f"start {program}")
    assert "FOUNDRY" not in outcome(f"start {program}")
