"""SIGKILL at twenty random moments of the whole chain: what comes out is what an undisturbed run makes.

A language model's answers are part of the outside world: asked anew, a server may answer otherwise in the last bit of
a probability. The undisturbed run is given the answers that the disturbed one bought, and must need no other.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.store import LocalStore

KILLS = 20
LONGEST_S = 12.0


def start(store: Path, source: Path, environment: dict[str, str]) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.e2e.chain", str(store), str(source)]
    with store.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, env=environment, start_new_session=True, stdout=log, stderr=log)


def listed(store: Path) -> dict[str, bytes]:
    """Every manifest; each one parses, and each part it names is whole."""
    found = {}
    for path in sorted((store / "versions").rglob("*.json")):
        manifest = Manifest.model_validate_json(path.read_bytes())
        for part in manifest.objects:
            assert file_sha256(LocalStore(store).local_path(part.key)) == part.sha256
        found[str(path.relative_to(store))] = path.read_bytes()
    return found


def answers(store: Path) -> set[str]:
    return {path.name for path in store.glob("responses/*/*.json")}


def test_twenty_kills_change_nothing(tmp_path: Path, small_site: Path, environment: dict[str, str]) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    moments = random.Random(20)
    hits = 0
    for _ in range(KILLS):
        process = start(killed, small_site, environment)
        try:
            process.wait(moments.uniform(0.5, LONGEST_S))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            hits += 1
        listed(killed)
    assert hits >= KILLS // 2
    assert start(killed, small_site, environment).wait() == 0, killed.with_suffix(".log").read_text()[-2000:]

    shutil.copytree(killed / "responses", calm / "responses")
    assert start(calm, small_site, environment).wait() == 0, calm.with_suffix(".log").read_text()[-2000:]
    assert answers(calm) == answers(killed) != set()

    expected, actual = listed(calm), listed(killed)
    assert actual.keys() == expected.keys()
    for name, data in expected.items():
        assert actual[name] == data, f"{name}: {json.loads(actual[name])} instead of {json.loads(data)}"
