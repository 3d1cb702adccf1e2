"""Answers bought ahead by batches: the task sleeps while they are on their way, and the step then asks nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred
from foundry_airflow.ahead import AheadOperator
from foundry_airflow.calls import Ended

from pipeline_tasks.core.errors import EXIT_RETRY
from pipeline_tasks.core.paid.spending import key_of, read_state
from pipeline_tasks.core.pins import pinned
from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.synthesis.llm.endpoint import LlmParams
from tests.stores import put, rows
from tests.synthesis.batch_endpoint import BatchEndpoint
from tests.synthesis.conftest import StandInEndpoint

NEED = "Somebody who fishes below the river dam wants to know how long the siren warns them."
PAIR = {
    "query": "how long does the warning last at the dam before water is let out",
    "positive": "Before the gates of the river dam open, the siren sounds for three minutes, and anglers must leave.",
}
TEXT = "Siren {} at the river dam sounds for three minutes before the gates open, so anglers must leave at once."
SENT = {"llm": "m", "api": "chat", "intents": ["qa"]}


def answer(body: dict[str, Any]) -> str:
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    texts = {"need": NEED} | PAIR
    return json.dumps({name: texts[name] for name in fields})


@pytest.fixture
def there(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchEndpoint]:
    each = [{"passage_id": f"p{i}", "doc_id": "d", "text": TEXT.format(i), "split": "train"} for i in range(3)]
    put(LocalStore(store_folder), PASSAGES, each)
    with BatchEndpoint(answer) as endpoint:
        for name, value in (("OPENAI_BASE_URL", endpoint.url), ("PRICE_IN", "2"), ("PRICE_OUT", "8")):
            monkeypatch.setenv(name if name.startswith("OPENAI") else f"FOUNDRY_LLM_{name}", value)
        settings.cache_clear()
        yield endpoint


def ahead(wanted: Any = True) -> AheadOperator:
    return AheadOperator(task_id="ahead", step="write_needs", wanted=wanted, values=SENT)


def slept(look: Callable[[], object]) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        look()
    return caught.value


def test_a_task_sleeps_while_answers_are_on_their_way_and_begins_no_batch_twice(there, monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__BATCH_POLL_S", "7")
    wait = slept(lambda: ahead().execute({}))
    assert wait.trigger.serialize()[1]["moment"] and wait.method_name == "look_again"
    slept(lambda: ahead().execute({}))
    there.end()
    assert "foundry run write_needs" in getattr(ahead(), wait.method_name)({}, None)
    assert (len(there.batches), set(there.billed.values()), there.alone) == (1, {1}, [])


def test_an_endpoint_that_cannot_be_reached_is_no_batch_on_its_way(there):
    assert slept(lambda: ahead()._result(Ended(EXIT_RETRY, "open 3"))).method_name == "look_again"
    with pytest.raises(AirflowException, match="asks to be tried again"):
        ahead()._result(Ended(EXIT_RETRY, ""))


def test_a_task_sleeps_while_a_run_of_its_step_asks(there, store_folder, caplog):
    caplog.set_level("INFO")
    with pinned(LocalStore(store_folder), "write_needs", []):
        wait = slept(lambda: ahead().execute({}))
    assert "a run of write_needs is asking now" in caplog.text and not there.batches
    slept(lambda: getattr(ahead(), wait.method_name)({}, None))
    assert len(there.batches) == 1


def test_without_the_field_nothing_is_bought_ahead(there):
    with pytest.raises(AirflowSkipException, match="asks at once"):
        ahead(wanted="False").execute({})
    assert not there.batches and not there.alone


def test_an_endpoint_without_a_batch_api_fails_the_task_at_once(there, store_folder, monkeypatch, caplog):
    caplog.set_level("INFO")
    with StandInEndpoint((404, {"error": {"message": "no such path"}})) as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        with pytest.raises(AirflowFailException, match="exit code 2"):
            ahead().execute({})
    assert "has no batch API (404 for GET /batches): ask at once" in caplog.text and not other.seen
    left = LocalStore(store_folder)
    assert not list(left.keys("batches")) and not read_state(left, key_of("llm"))["days"]


def test_a_batch_that_was_cancelled_fails_the_task_and_is_begun_again_when_that_is_cleared(there, caplog):
    caplog.set_level("INFO")
    slept(lambda: ahead().execute({}))
    there.end("cancelled", lambda body: "batch_cancelled")
    with pytest.raises(AirflowFailException, match="exit code 2"):
        ahead().look_again({}, None)
    assert "a batch was cancelled at 127.0.0.1" in caplog.text and len(there.batches) == 1
    slept(lambda: ahead().execute({}))
    assert len(there.batches) == 2


def test_every_step_that_asks_by_chat_waits_for_what_is_bought_ahead(bag):
    asking = {
        (dag, name.removesuffix("_ahead"))
        for dag in bag.dags.values()
        for name in dag.task_ids
        if name.endswith("_ahead")
    }
    steps = {name for _, name in asking}
    assert {dag.dag_id for dag, _ in asking} == {dag.dag_id for dag in bag.dags.values() if "batch" in dag.params}
    assert steps == {name for name in step_names() if issubclass(get_step(name).params, LlmParams)} - {"score_passages"}
    for dag, name in asking:
        first = f"{name}_groups.plan" if get_step(name).kind == "map" else name
        assert dag.get_task(f"{name}_ahead").pool == "default_pool", "it sleeps for a day, and asks nobody"
        assert f"{name}_ahead" in dag.get_task(name).upstream_task_ids & dag.get_task(first).upstream_task_ids, name


def test_a_run_of_the_dag_buys_by_batches_and_asks_nobody_else(there, root, store_folder, tmp_path):
    ends = threading.Event()

    def keep_ending() -> None:
        while not ends.wait(0.3):
            there.end()

    watcher = threading.Thread(target=keep_ending)
    watcher.start()
    conf = SENT | {"batch": True, "own": []}
    command = [sys.executable, "-m", "foundry_airflow.local_run", "--home", str(tmp_path / "airflow")]
    told = {"PYTHONPATH": f"{root}:{root / 'plugins'}", "AIRFLOW__FOUNDRY__BATCH_POLL_S": "0.2"}
    done = subprocess.run(
        [*command, "--dags", str(root / "dags"), "synthesize_pairs", json.dumps(conf)],
        env=os.environ | told,
        capture_output=True,
        text=True,
    )
    ends.set()
    watcher.join()
    assert done.returncode == 0, done.stdout + done.stderr
    log = (tmp_path / "airflow" / "logs" / "local_run.log").read_text()
    assert log.count("Pausing task as DEFERRED") >= 2, "each of the two steps slept"
    assert len(rows(LocalStore(store_folder), "mtp/dm")) == 3
    assert set(there.billed.values()) == {1} and len(there.billed) == 6 and not there.alone
