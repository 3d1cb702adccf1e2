from __future__ import annotations

import subprocess
import sys

import toy
from prometheus_client.parser import text_string_to_metric_families

from pipeline_tasks.core.events import PREFIX as EVENTS
from pipeline_tasks.core.events import EventLog
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.lineage import fold, query
from pipeline_tasks.core.lineage.metrics import METRICS, exposition
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.store import LocalStore


def samples(text: str) -> dict[tuple, float]:
    """Every sample by its name and labels, as Prometheus' own parser reads them."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_what_the_lineage_says(built):
    found = samples(exposition(built))
    labels = ("reused", "false"), ("status", "failed"), ("step", "toy_broken")
    assert found["foundry_step_runs_total", *labels] == 1
    assert found["foundry_step_counter_total", ("name", "pages"), ("step", "toy_documents")] == 3
    assert found["foundry_dataset_rows", ("dataset", "mtp")] == 2
    assert found["foundry_dataset_rejects", ("dataset", "documents"), ("reason", "encrypted")] == 1
    assert found["foundry_lineage_problems",] == 0
    (told,) = query(built, "SELECT sum(duration_s) AS s FROM steps").to_pylist()
    seconds = sum(value for (name, *_), value in found.items() if name == "foundry_step_seconds_total")
    assert abs(seconds - told["s"]) < 1e-6
    assert {name for name, *_ in found} == {name for name, *_ in METRICS}


def test_a_file_of_metrics_takes_one_look_at_the_store(built, monkeypatch):
    fold(built)
    listed = []
    keys = LocalStore.keys
    monkeypatch.setattr(LocalStore, "keys", lambda self, prefix: listed.append(prefix) or keys(self, prefix))
    exposition(built)
    assert listed.count(EVENTS) == 1


def test_an_empty_store_has_metrics_and_a_hostile_name_breaks_no_line(tmp_path):
    store = LocalStore(tmp_path)
    assert samples(exposition(store)) == {("foundry_lineage_problems",): 0}
    name = 'x"} 1\nfoundry_step_runs_total{step="y\\'
    EventLog(store, name, "1").emit("START", inputs={}, output=None, facts={})
    runs = {key: value for key, value in samples(exposition(store)).items() if "_runs_" in key[0]}
    assert runs == {("foundry_step_runs_unfinished", ("step", name)): 1}


def test_a_run_is_counted_when_it_has_ended_so_that_no_counter_goes_back(tmp_path):
    store = LocalStore(tmp_path)
    log = EventLog(store, "slow", "1")
    log.emit("START", inputs={}, output=None, facts={})
    before = samples(exposition(store))
    log.emit("FAIL", inputs={}, output=None, facts={})
    after = samples(exposition(store))
    assert (
        before["foundry_step_runs_unfinished", ("step", "slow")],
        after["foundry_step_runs_unfinished", ("step", "slow")],
    ) == (1, 0)
    counted = {key: value for key, value in after.items() if key[0] == "foundry_step_runs_total"}
    assert counted == {("foundry_step_runs_total", ("reused", "false"), ("status", "failed"), ("step", "slow")): 1}
    assert not [key for key in before if key[0] == "foundry_step_runs_total"]


def test_rows_are_counted_when_a_version_is_made_and_at_no_other_time(tmp_path):
    store = LocalStore(tmp_path)
    toy.make(store, toy.toy_urls, names=("a", "b", "bad", "c"))
    job = plan(store, toy.toy_documents, {})
    for group in ((0, 2), (1, 2), None, None):
        run_job(store, job, group=group)
    found = samples(exposition(store))
    names = ("rows_in", "rows_out", "rows_rejected", "rows_built", "pages")
    counted = [found["foundry_step_counter_total", ("name", name), ("step", "toy_documents")] for name in names]
    assert counted == [4, 3, 1, 4, 3]


def test_the_command_writes_the_file_whole(built, tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_STORE", str(built.root))
    target = tmp_path / "foundry.prom"
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", "metrics"]
    subprocess.run([*command, "--output", target], check=True)
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert samples(target.read_text()) == samples(told) != {}
    assert list(tmp_path.iterdir()) == [target]
