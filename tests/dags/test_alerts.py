"""Alerts reach a real server on loopback, say what a reader needs, and never stand in a task's way."""

import asyncio
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from airflow.triggers.callback import CallbackTrigger
from foundry_airflow import alerts

from tests.ports import free_port

SECRET = "T000-very-secret-path"


class Webhook(ThreadingHTTPServer):
    """Keeps what is posted to it, and answers ``status``."""

    def __init__(self, status=200, location=""):
        self.status, self.location, self.seen = status, location, []
        super().__init__(("127.0.0.1", 0), Keeper)
        self.url = f"http://127.0.0.1:{self.server_port}/{SECRET}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Keeper(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.seen.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture
def hook(monkeypatch):
    with Webhook() as found:
        monkeypatch.setenv("AIRFLOW__FOUNDRY__ALERT_WEBHOOK", found.url)
        yield found


def fields(body):
    return {field["title"]: field["value"] for field in body["attachments"][0]["fields"]}


@pytest.fixture
def stumble(toy_runs, tmp_path):
    """A DAG run whose task fails for good, with this webhook; its log."""

    def run(webhook):
        conf = json.dumps({"how": "input", "mark": str(tmp_path / "mark")})
        environment = {"FOUNDRY__ALERT_WEBHOOK": webhook, "API__BASE_URL": "https://airflow.example"}
        environment = {f"AIRFLOW__{name}": value for name, value in environment.items()}
        done = toy_runs(tmp_path, "toy_stumble", conf, **environment)
        return done, (tmp_path / "airflow" / "logs" / "local_run.log").read_text()

    return run


def test_a_task_that_fails_is_told_with_its_error_and_where_its_log_is(stumble):
    with Webhook() as hook:
        done, log = stumble(hook.url)
    assert done.returncode == 1
    ((path, body),) = hook.seen
    assert path == f"/{SECRET}"
    assert body["text"] == "toy_stumble: stumble failed"
    found = fields(body)
    assert found | {"run": ""} == {
        "DAG": "toy_stumble", "run": "", "task": "stumble", "try": "1", "error": "foundry: this can never work",
    }  # fmt: skip
    assert body["attachments"][0]["title_link"].startswith("https://airflow.example/dags/toy_stumble/runs/")
    assert SECRET not in log + done.stdout + done.stderr


def test_a_dead_webhook_changes_nothing_but_the_log(stumble):
    done, log = stumble(f"http://127.0.0.1:{free_port()}/{SECRET}")
    assert done.returncode == 1 and "this can never work" in done.stdout
    assert "the alert webhook cannot be reached" in log
    assert SECRET not in log + done.stdout + done.stderr


def test_a_webhook_that_drips_is_left_behind(monkeypatch, caplog):
    monkeypatch.setattr(alerts, "LIMIT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip():
            there, _ = server.accept()
            with there:
                try:
                    for _ in range(600):
                        there.sendall(b"H")
                        time.sleep(0.1)
                except OSError:
                    return

        threading.Thread(target=drip, daemon=True).start()
        monkeypatch.setenv("AIRFLOW__FOUNDRY__ALERT_WEBHOOK", f"http://127.0.0.1:{server.getsockname()[1]}/{SECRET}")
        alerts.send("late", {}, "")
    assert "took longer than" in caplog.text and SECRET not in caplog.text


@pytest.mark.parametrize("url", ["file:///etc/passwd", "nonsense", "http://[::1", "http://a b/"])
def test_an_address_that_is_none_is_a_line_in_the_log(monkeypatch, caplog, url):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__ALERT_WEBHOOK", url)
    alerts.send("late", {}, "")
    assert "the alert is lost" in caplog.text and url not in caplog.text


def test_no_redirect_is_followed(hook, monkeypatch, caplog):
    with Webhook(status=307, location=hook.url) as sly:
        monkeypatch.setenv("AIRFLOW__FOUNDRY__ALERT_WEBHOOK", sly.url)
        alerts.send("late", {}, "")
        assert len(sly.seen) == 1 and hook.seen == []
    assert "answers 307" in caplog.text


def test_no_webhook_no_alert(hook, monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__ALERT_WEBHOOK", "")
    alerts.send("late", {}, "")
    assert hook.seen == []


def test_a_hostile_error_mentions_nobody_and_is_cut(hook):
    alerts.send("<!channel> failed", {"error": "<!channel> <https://evil|click> " + "x" * 9999}, "")
    ((_, body),) = hook.seen
    told = body["text"] + fields(body)["error"]
    assert "<" not in told and ">" not in told
    assert len(told) < 2 * alerts.LONGEST


def test_the_triggerer_finds_and_runs_what_a_missed_deadline_calls(hook):
    deadline = alerts.within(hours=48)
    assert (deadline.interval.total_seconds(), deadline.reference.reference_name) == (172800, "DagRunQueuedAtDeadline")
    run = {"dag_id": "corpus_refresh", "dag_run_id": "weekly 1", "state": "running"}
    context = {"dag_run": run, "deadline": {"id": "d", "deadline_time": "2026-11-22T00:00:00Z"}}

    async def miss():
        trigger = CallbackTrigger(deadline.callback.path, {"context": context})
        return [event async for event in trigger.run()]

    assert asyncio.run(miss())[-1].payload["state"] == "success"
    ((_, body),) = hook.seen
    assert body["text"] == "corpus_refresh is late"
    assert fields(body) == {
        "DAG": "corpus_refresh", "run": "weekly 1", "state": "running", "due": "2026-11-22T00:00:00Z",
    }  # fmt: skip
    assert body["attachments"][0]["title_link"].endswith("/dags/corpus_refresh/runs/weekly%201")


@pytest.mark.parametrize(
    ("index", "label"), [(None, "finetune"), (-1, "finetune"), (0, "finetune[0]"), (7, "finetune[7]")]
)
def test_the_first_of_several_tasks_is_named_as_such(hook, index, label):
    task = SimpleNamespace(dag_id="d", run_id="r", task_id="finetune", map_index=index, try_number=1, log_url="")
    alerts.task_failed({"ti": task, "reason": "gone"})
    ((_, body),) = hook.seen
    assert fields(body)["task"] == label
