"""SIGKILL at twenty random moments of the whole chain: what comes out is what an undisturbed run makes.

A run is killed once it has written a few files, so that the kills reach the end of the chain however fast the machine
is. A language model's answers are part of the outside world: the undisturbed run is given those that the disturbed one
bought, and must need no other.
"""

import json
import os
import random
import shutil
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.demo.recorded_llm import Recording
from pipeline_tasks.demo.site import URL_LIST, serve_site
from tests.e2e.chain import in_child
from tests.forked import forked

KILLS = 20
MOST_FILES = 10
LOOK_S = 0.02
PORT = 18742


def start(*chain: object) -> BaseProcess:
    process = forked().Process(target=in_child, args=chain)
    process.start()
    return process


def files(store: Path) -> int:
    """How many parts, answers, versions and checkpoints there are."""
    return sum(
        len(names) for kind in ("memo", "responses", "versions", "scratch") for *_, names in os.walk(store / kind)
    )


def finish(store: Path, *rest: object) -> None:
    process = start(store, *rest)
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


def test_twenty_kills_change_nothing(
    tmp_path: Path, small_site: Path, recording: Recording, environment: dict[str, str]
) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    moments = random.Random(20)
    hits = 0
    with serve_site(small_site, port=PORT) as site:
        rest = site + URL_LIST, recording.name, environment | {"FOUNDRY_ALLOW_HOSTS": "127.0.0.1"}
        for _ in range(KILLS):
            enough = files(killed) + moments.randint(1, MOST_FILES)
            process = start(killed, *rest)
            while process.is_alive() and files(killed) < enough:
                time.sleep(LOOK_S)
            process.kill()
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL), killed.with_suffix(".log").read_text()[-2000:]
            hits += process.exitcode != 0
            listed(killed)
        assert hits >= KILLS // 2
        finish(killed, *rest)

        shutil.copytree(killed / "responses", calm / "responses")
        finish(calm, *rest)
    assert answers(calm) == answers(killed) != set()

    expected, actual = listed(calm), listed(killed)
    assert actual.keys() == expected.keys()
    for name, data in expected.items():
        assert actual[name] == data, f"{name}: {json.loads(actual[name])} instead of {json.loads(data)}"
