"""SIGKILL at twenty random moments of the whole chain: what comes out is what an undisturbed run makes.

A language model's answers are part of the outside world: asked anew, a server may answer otherwise in the last bit of
a probability. The undisturbed run is given the answers that the disturbed one bought, and must need no other.
"""

import json
import random
import shutil
import signal
from multiprocessing.process import BaseProcess
from pathlib import Path

from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.store import LocalStore
from tests.e2e.chain import in_child
from tests.forked import forked

KILLS = 20
LONGEST_S = 4.0


def start(store: Path, source: Path, environment: dict[str, str]) -> BaseProcess:
    process = forked().Process(target=in_child, args=(store, source, environment))
    process.start()
    return process


def finish(store: Path, source: Path, environment: dict[str, str]) -> None:
    process = start(store, source, environment)
    process.join()
    assert process.exitcode == 0, store.with_suffix(".log").read_text()[-2000:]


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
        process.join(moments.uniform(0.1, LONGEST_S))
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL), killed.with_suffix(".log").read_text()[-2000:]
        hits += process.exitcode != 0
        listed(killed)
    assert hits >= KILLS // 2
    finish(killed, small_site, environment)

    shutil.copytree(killed / "responses", calm / "responses")
    finish(calm, small_site, environment)
    assert answers(calm) == answers(killed) != set()

    expected, actual = listed(calm), listed(killed)
    assert actual.keys() == expected.keys()
    for name, data in expected.items():
        assert actual[name] == data, f"{name}: {json.loads(actual[name])} instead of {json.loads(data)}"
