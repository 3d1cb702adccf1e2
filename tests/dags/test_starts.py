"""A fork of a server is a process as any other: its own session, variables, output and end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from foundry_airflow import process
from foundry_airflow.calls import Call, Ended
from foundry_airflow.process import ProcessBackend
from foundry_airflow.starts import _forks, forks

from pipeline_tasks.core.step import Resources

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks of loaded libraries are for Linux alone")
COMMAND = (sys.executable, "-m", "toys.speaks")


@pytest.fixture(scope="module", autouse=True)
def served() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foundry_airflow.starts.IMPORTED", {"cpu": ("no_such_package",)})
        patch.setattr(process, "COMMAND", COMMAND)
        with forks(COMMAND):
            yield


def call(*arguments: str, minutes: float = 0) -> Call:
    return Call("count", "76a59d9ae48d0d8e", arguments, Resources(timeout_minutes=minutes))


def ran(*arguments: str, minutes: float = 0) -> tuple[Ended, list[str]]:
    said: list[str] = []
    ended = ProcessBackend().run(call(*arguments, minutes=minutes), said.append)
    return ended, said


def test_it_has_a_session_output_and_variables_of_its_own(monkeypatch):
    monkeypatch.setenv("FOUNDRY_STORE", "/one")
    first, said = ran("say")
    monkeypatch.setenv("FOUNDRY_STORE", "/other")
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "secret")
    second, _ = ran("say")
    assert (first.exit_code, said) == (0, ["say"])
    one, other = json.loads(first.last_line), json.loads(second.last_line)
    assert one["session"] == one["process"] != other["process"]
    assert (one["seen"]["FOUNDRY_STORE"], other["seen"]["FOUNDRY_STORE"]) == ("/one", "/other")
    assert "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" not in other["seen"]


def test_its_exit_code_is_told():
    assert ran("exit", "75")[0].exit_code == 75


def test_it_is_ended_when_its_time_is_over_and_when_it_is_cancelled():
    ended, _ = ran("wait", minutes=0.01)
    assert ended.exit_code == 124
    backend, codes = ProcessBackend(), []

    def cancel(line: str) -> None:
        backend.cancel()
        codes.append(line)

    assert backend.run(call("wait"), cancel).exit_code == -signal.SIGTERM
    assert codes == ["wait"]


def test_a_server_that_was_killed_is_started_again():
    before = _forks[0].of(call())
    os.kill(before.process.pid, signal.SIGKILL)
    before.process.wait()
    assert ran("exit", "3")[0].exit_code == 3
    assert _forks[0].of(call()).process.pid != before.process.pid


def test_a_fork_of_the_caller_asks_the_same_server():
    before = _forks[0].of(call()).process.pid
    child = os.fork()
    if not child:
        try:
            with forks(COMMAND):
                same = _forks[0].of(call()).process.pid == before
                os._exit(ran("exit", "3")[0].exit_code if same else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert ran("exit", "4")[0].exit_code == 4, "the fork ended, the server did not"


def test_nothing_is_left_of_a_server_whose_caller_is_gone(tmp_path: Path):
    code = (
        "import os, sys; from foundry_airflow.starts import Server; "
        "print(Server('toys.speaks', ()).process.pid, flush=True); os._exit(1)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    while runs(int(done.stdout)):
        time.sleep(0.05)


def runs(pid: int) -> bool:
    """Whether that process has not ended; one that nobody has asked for its exit code has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
