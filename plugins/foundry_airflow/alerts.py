"""Alerts: a failed task or a late run becomes one message to a webhook that understands Slack's.

``[foundry] alert_webhook`` in the Airflow configuration (``AIRFLOW__FOUNDRY__ALERT_WEBHOOK``) is its address, a secret
that is never logged. Without one there are no alerts. A webhook that is slow, broken or gone costs a task that has
failed anyway ``LIMIT_S`` seconds and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

from airflow.sdk import AsyncCallback, Context, DeadlineAlert, DeadlineReference  # type: ignore[attr-defined]
from airflow.sdk.configuration import conf
from airflow.sdk.log import mask_secret, redact

log = logging.getLogger(__name__)
LIMIT_S = 5.0
LONGEST = 500


def task_failed(context: Context) -> None:
    """Report that a task will not be tried again; the callback of every task."""
    task = context["ti"]
    error = context.get("exception") or context.get("reason") or "ended without a word; was it killed?"
    place = -1 if task.map_index is None else task.map_index
    label = task.task_id if place < 0 else f"{task.task_id}[{place}]"
    facts = {"DAG": task.dag_id, "run": task.run_id, "task": label, "try": task.try_number, "error": error_line(error)}
    send(f"{task.dag_id}: {label} failed", facts, task.log_url)


async def run_late(context: dict[str, Any]) -> None:
    """Report that a run is not done by its deadline; the triggerer calls it."""
    run = context["dag_run"]
    dag_id, run_id = run["dag_id"], run["dag_run_id"]
    facts = {"DAG": dag_id, "run": run_id, "state": run["state"], "due": context["deadline"]["deadline_time"]}
    base = conf.get("api", "base_url", fallback="http://localhost:8080").rstrip("/")
    await asyncio.to_thread(send, f"{dag_id} is late", facts, f"{base}/dags/{quote(dag_id)}/runs/{quote(run_id)}")


def within(hours: float) -> DeadlineAlert | None:
    """The deadline of a DAG: a run is reported that is not done so many hours after it was queued.

    None where no webhook would hear of it: Airflow 3.3 writes a new version of a DAG with a deadline at every parse.
    """
    if not conf.get("foundry", "alert_webhook", fallback=""):
        return None
    callback = AsyncCallback(run_late)
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, timedelta(hours=hours), callback)


def error_line(error: object) -> str:
    """What went wrong in one line: the last one that the step said, where it said one."""
    texts = (str(error), *getattr(error, "__notes__", ()))
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def send(title: str, facts: dict[str, Any], link: str) -> None:
    """Post a message, or log why that was not possible; it never raises, and returns within ``LIMIT_S`` seconds."""
    url = conf.get("foundry", "alert_webhook", fallback="")
    if not url:
        return
    mask_secret(url)
    thread = Thread(target=_post, args=(url, message(title, facts, link)), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if thread.is_alive():
        log.warning("the alert webhook took longer than %g s; the alert is lost: %s", LIMIT_S, title)


def message(title: str, facts: dict[str, Any], link: str) -> bytes:
    """A message as Slack, Mattermost, Rocket.Chat and Discord's ``/slack`` address take it; secrets are blanked."""
    clean = {name: plain(str(redact(str(value)))) for name, value in facts.items()}
    fields = [{"title": name, "value": value, "short": name != "error"} for name, value in clean.items()]
    attachment = {"color": "danger", "title": "log", "title_link": link, "fields": fields, "fallback": link}
    return json.dumps({"text": plain(title), "attachments": [attachment]}).encode()


def plain(text: str) -> str:
    """``text``, cut to ``LONGEST``, in which nothing is a mention or a link: it may quote a hostile document."""
    return text[:LONGEST].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none: the message goes to the address that was configured."""


def _post(url: str, body: bytes) -> None:
    try:
        if not url.startswith(("http://", "https://")):
            raise ValueError("not an http(s) address")
        request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
        with build_opener(_NoRedirect).open(request, timeout=LIMIT_S):
            return
    except HTTPError as error:
        log.warning("the alert webhook answers %d; the alert is lost", error.code)
    except Exception as error:  # noqa: BLE001 (whatever is wrong with it, the task goes on)
        log.warning("the alert webhook cannot be reached (%s); the alert is lost", type(error).__name__)
