"""Eight runs at once while parts of the stack are killed one after another: all end, with the right results, paid once.

A step container, the scheduler, Postgres, SeaweedFS, the triggerer get SIGKILL; nobody but Docker starts them again.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.mine_negatives import mine_negatives
from pipeline_tasks.curation.mutual_agreement import mutual_agreement
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANKINGS
from pipeline_tasks.demo.airflow import local_run
from pipeline_tasks.demo.sample import load_documents
from pipeline_tasks.demo.site import URL_LIST, serve_site
from pipeline_tasks.domains import domain_folder
from tests.containers.conftest import HERE, docker, named, weights_for
from tests.containers.stack import Stack, wait_for
from tests.stores import go, put

log = logging.getLogger(__name__)
BUCKET = "s3://foundry/store"
SITE, LLM = 18743, 18744
MODEL = "all-minilm-l6-v2"
SOURCE = {"source": f"http://127.0.0.1:{SITE}/{URL_LIST}"}
CONCURRENCY = 2
# Some of the passages are of documents that are judged, which the gate before training would not let pass.
PAIRS_OF = {"intents": ["qa"], "concurrency": CONCURRENCY, "max_contaminated": 1}
ALPHAS = ("0.5", "0.6", "0.7", "0.8", "0.9", "1.0")
SERVICES = ("scheduler", "postgres", "seaweedfs", "triggerer")


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
    """A store in a folder with passages, and labelled queries to mine negatives for: what the eight runs start from."""
    store = LocalStore(tmp_path_factory.mktemp("seed") / "store")
    texts = [line for document in load_documents(domain_folder() / "sample") for line in document.body.split("\n\n")]
    passages = [
        {"passage_id": f"p{n:02}", "doc_id": f"d{n}", "text": text, "split": "train"}
        for n, text in enumerate(text for text in texts if len(text.split()) > 60)
    ][:24]
    pairs = [
        {
            "query_id": f"q-{p['passage_id']}",
            "query": p["text"].partition(".")[0],
            "positive_id": f"g-{p['passage_id']}",
            "positive": p["text"].upper(),
            "passage": p["text"],
            "intent": "qa",
            "origin": "dm",
        }
        | {name: p[name] for name in ("passage_id", "doc_id", "split")}
        for p in passages[:8]
    ]
    put(store, PASSAGES, passages)
    put(store, PAIRS, pairs, dataset="mtp")
    ids = [p["passage_id"] for p in passages]
    ranked = [
        {name: pair[name] for name in ("query_id", "passage_id", "doc_id", "intent")}
        | {"passage_ids": ids[n:] + ids[:n], "scores": [0.95 - 0.03 * rank for rank in range(len(ids))]}
        for n, pair in enumerate(pairs)
    ]
    for model in get_step("mutual_agreement").params().models:
        put(store, RANKINGS, ranked, dataset=f"rankings/{model}")
    go(store, mutual_agreement)
    return store


@pytest.fixture(scope="module")
def weights(stack: Stack) -> Path:
    """The cache, and the volume with the model that passages are compared by."""
    return weights_for(stack, MODEL)


def kill(container: str) -> None:
    """SIGKILL to what it runs, as when memory runs out; ``docker kill`` would keep it from being started again."""
    pid = docker("inspect", "--format", "{{.State.Pid}}", container).strip()
    alone = ("--rm", "--pid", "host", "--user", "0", "--network", "none", "--entrypoint", "sh")
    docker("run", *alone, named("cpu"), "-c", f"kill -9 {pid}")


def told(stack: Stack, service: str) -> str:
    """What a container beside the stack has said."""
    ran = subprocess.run(["docker", "logs", f"{stack.project}-{service}"], capture_output=True, text=True, check=True)
    return ran.stdout + ran.stderr


def asked(stack: Stack) -> Counter[str]:
    """Request -> how often the language model was asked it."""
    return Counter(re.findall(r"asked (\w+)$", told(stack, "llm"), re.MULTILINE))


@pytest.fixture(scope="module")
def disturbed(
    stack: Stack, seed: LocalStore, weights: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Address -> end of eight runs that went on while parts of the stack were killed."""
    stack.sync(tmp_path_factory.mktemp("copies"), str(seed), BUCKET)
    asked_for = [("synthesize_pairs", PAIRS_OF), *(("build_level", {"alpha": alpha}) for alpha in ALPHAS)]
    runs = [stack.trigger(dag, **conf) for dag, conf in asked_for]
    pairs = runs[0]
    stack.resume("corpus_refresh", "synthesize_pairs", "build_level")
    runs.append(wait_for(lambda: stack.runs("corpus_refresh"), "the weekly refresh")[0])
    wait_for(lambda: set(runs) <= set(stack.runs("~", "running")), "eight runs at once")
    with ThreadPoolExecutor(1) as beside:
        rested = beside.submit(rest_after, stack, pairs)
        wait_for(lambda: len(asked(stack)) > 5, "a step that pays")
        ours = ("--filter", f"volume={stack.project}_cache", "--filter", "label=retriever-foundry/step=write_needs")
        kill(docker("ps", "--quiet", *ours).strip())
        for service in SERVICES:
            survive(stack, service)
        ends = {run: stack.end_of(run) for run in runs}
        rested.result()
    return ends


def survive(stack: Stack, service: str) -> None:
    """Kill a part of the stack; return when Docker has started it again and another task has ended well since."""
    container = f"{stack.project}-{service}-1"
    first = started_at(container)
    wait_for(lambda: stack.count("running"), "a task that runs")
    began = time.monotonic()
    kill(container)
    wait_for(lambda: started_at(container) > first, f"the restart of {service}")
    before = stack.count("success")
    wait_for(lambda: stack.count("success") > before, f"work after the end of {service}")
    log.info("%s: %.1f s until another task ended well", service, time.monotonic() - began)


def started_at(container: str) -> str:
    """When it was started last."""
    return docker("inspect", "--format", "{{.State.StartedAt}}", container)


def rest_after(stack: Stack, run: str) -> None:
    """Let the DAG of ``run`` rest once that has ended: new passages would start it again."""
    stack.end_of(run)
    stack.persistently("PATCH", run.partition("/dagRuns")[0], is_paused=True)


def test_all_eight_end_well(stack: Stack, disturbed: dict[str, str]):
    assert set(disturbed.values()) == {"success"}, {run: stack.tasks(run) for run in disturbed}
    assert len(disturbed) == len(ALPHAS) + 2


def test_they_make_what_undisturbed_ones_make(
    stack: Stack, disturbed: dict[str, str], seed: LocalStore, weights: Path, site: Path, tmp_path: Path
):
    # searches are of another test, which starts one step in the same stack
    made = {name: data for name, data in stack.manifests().items() if not name.startswith("versions/searches/")}
    store = tmp_path / "store"
    shutil.copytree(seed.root, store)
    for alpha in ALPHAS:
        go(LocalStore(store), mine_negatives, alpha=float(alpha))
    (downloads,) = (Path(name).stem for name in made if name.startswith("versions/downloads/"))
    stack.sync(tmp_path / "copies", BUCKET, str(store), f"downloads@{downloads}")
    environment = os.environ | {
        "FOUNDRY_STORE": str(store),
        "FOUNDRY_CACHE": str(weights),
        "FOUNDRY_ALLOW_HOSTS": f"127.0.0.1:{SITE}",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{LLM}/v1",
    }
    llm = subprocess.Popen([sys.executable, str(HERE / "llm.py"), str(LLM)], stdout=subprocess.DEVNULL)
    try:
        with serve_site(site, port=SITE):
            week = stack.runs("corpus_refresh")[0].rpartition("__")[2][:10]
            alone = {"synthesize_pairs": PAIRS_OF, "corpus_refresh": SOURCE | {"refresh": week}}
            assert local_run(tmp_path / "airflow", environment, alone) == 0
    finally:
        llm.kill()
        llm.wait()
    assert {str(path.relative_to(store)): path.read_bytes() for path in (store / "versions").rglob("*.json")} == made


def test_nothing_is_paid_twice(stack: Stack, disturbed: dict[str, str]):
    requests = asked(stack)
    assert len(requests) > 20
    again = sum(requests.values()) - len(requests)
    assert again <= CONCURRENCY, "only what was on its way when its step was killed is asked again"
    answers = stack.bucket.objects.filter(Prefix="store/responses/")
    assert {Path(one.key).stem for one in answers} == set(requests)


def test_nothing_is_fetched_twice(stack: Stack, disturbed: dict[str, str], site: Path):
    fetched = Counter(re.findall(r'"GET /(\S+\.pdf) ', told(stack, "site")))
    assert fetched == dict.fromkeys((site / URL_LIST).read_text("utf-8").split(), 1)
