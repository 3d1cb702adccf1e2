"""SIGKILL at twenty random moments of the whole chain: what comes out is what an undisturbed run makes."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.store import LocalStore

KILLS = 20


def start(store: Path, source: Path, environment: dict[str, str]) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.e2e.chain", str(store), str(source)]
    log = store.with_suffix(".log").open("ab")
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


def test_twenty_kills_change_nothing(tmp_path: Path, small_site: Path, environment: dict[str, str]) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    began = time.monotonic()
    assert start(calm, small_site, environment).wait() == 0, calm.with_suffix(".log").read_text()[-2000:]
    calm_s = time.monotonic() - began

    moments = random.Random(20)
    hits = 0
    for _ in range(KILLS):
        process = start(killed, small_site, environment)
        try:
            process.wait(moments.uniform(0.5, 5 + calm_s / 8))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            hits += 1
        listed(killed)
    assert hits >= KILLS // 2
    assert start(killed, small_site, environment).wait() == 0, killed.with_suffix(".log").read_text()[-2000:]

    expected, actual = listed(calm), listed(killed)
    assert actual.keys() == expected.keys()
    for name, data in expected.items():
        assert actual[name] == data, f"{name}: {json.loads(actual[name])} instead of {json.loads(data)}"
    bought = [len(list(store.glob("responses/*/*.json"))) for store in (calm, killed)]
    assert bought[0] == bought[1]
