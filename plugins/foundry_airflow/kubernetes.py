"""The engine ``kubernetes``: one pod a call, in the cluster of this pod or of the kubeconfig."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from foundry_airflow.calls import KILLED, Call, Ended, lines_after
from foundry_airflow.containers import Container, container_of, folders, number, option
from foundry_airflow.engines import Look
from foundry_airflow.pod_status import ended, has_begun, is_over, lost, never_begins, waiting
from foundry_airflow.pods import GRACE_S, SECRET, STEP, pod
from pipeline_tasks.core.errors import InputError, TransientError

GONE, CONFLICT, BUSY = 404, 409, 429
BAD = 400
SERVER = 500
REQUEST_S = 60
SLACK_S = 30
"""Lines are asked for once more for so long, and told once: nobody's clock has to be right."""


@contextmanager
def kubernetes_errors() -> Iterator[None]:
    """Turn the API's errors into ours: refused for good, or worth another try."""
    try:
        yield
    except ApiException as error:
        passing = not error.status or error.status in (CONFLICT, BUSY) or error.status >= SERVER
        message = f"Kubernetes refused ({error.status} {error.reason}): {(error.body or '')[:500]}"
        raise (TransientError if passing else InputError)(f"{message}; see docs/kubernetes.md") from None
    except (HTTPError, OSError) as error:
        raise TransientError(f"Kubernetes does not answer: {error}") from None


class Kubernetes:
    """See :class:`foundry_airflow.engines.Engine`."""

    def __init__(self) -> None:
        try:
            if option("kubernetes_config") or option("kubernetes_context"):
                api = config.new_client_from_config(
                    option("kubernetes_config") or None, option("kubernetes_context") or None
                )
            else:
                config.load_config()
                api = client.ApiClient()
        except ConfigException as error:
            raise InputError(f"no cluster: {error}; set [foundry] kubernetes_config, or run in a pod") from None
        self._api = client.CoreV1Api(api)
        self._namespace = option("kubernetes_namespace", "default")
        self._looked_at = 0.0

    def start(self, call: Call) -> bool:
        """Run ``call``; of two tasks that do so at once one makes the pod, and both follow it."""
        wanted = container_of(call)
        body = pod(wanted, template(wanted, "gpu" if wanted.gpus else "cpu"), option("kubernetes_secret", SECRET))
        with kubernetes_errors():
            there = self._find(call.name)
            if there and not is_over(there):
                return False
            if there:
                self._remove(call.name)
            try:
                self._api.create_namespaced_pod(self._namespace, body, _request_timeout=REQUEST_S)
            except ApiException as error:
                if error.status != CONFLICT:
                    raise
                return False
        return True

    def look(self, name: str, after: str) -> Look:
        """New lines of its log, what it waits for, and its termination message when it has ended."""
        with kubernetes_errors():
            found = self._find(name)
            if found is None:
                return Look(after=after, ended=Ended(KILLED, why="its pod is gone; somebody removed it"))
            lines, after = self._lines(name, after) if has_begun(found) else ((), after)
            limit_m = number("kubernetes_start_minutes", 30)
            return Look(lines, after, waiting(found), ended(found) or lost(found) or never_begins(found, limit_m))

    def end(self, name: str) -> None:
        """Stop it, by force after a while, and remove it; at once where its node does not answer."""
        with kubernetes_errors():
            there = self._find(name)
            grace_s = 0 if there and lost(there) else GRACE_S
            try:
                self._api.delete_namespaced_pod(
                    name, self._namespace, grace_period_seconds=grace_s, _request_timeout=REQUEST_S
                )
            except ApiException as error:
                if error.status != GONE:
                    raise

    def _remove(self, name: str) -> None:
        self.end(name)
        for _ in range(2 * GRACE_S):
            if self._find(name) is None:
                return
            sleep(1)
        raise TransientError(f"the pod {name} of an earlier try is still being removed")

    def _find(self, name: str) -> dict[str, Any] | None:
        try:
            found = self._api.read_namespaced_pod(name, self._namespace, _request_timeout=REQUEST_S)
        except ApiException as error:
            if error.status != GONE:
                raise
            return None
        return self._api.api_client.sanitize_for_serialization(found)

    def _lines(self, name: str, after: str) -> tuple[tuple[str, ...], str]:
        """See :func:`foundry_airflow.calls.lines_after`; of a pod that has no log there are none."""
        now = monotonic()
        since = {"since_seconds": int(now - self._looked_at) + SLACK_S} if after and self._looked_at else {}
        try:
            answer = self._api.read_namespaced_pod_log(
                name, self._namespace, container=STEP, timestamps=True, _preload_content=False,
                _request_timeout=REQUEST_S, **since,
            )  # fmt: skip
        except ApiException as error:
            if error.status not in (BAD, GONE):
                raise
            return (), after
        self._looked_at = now
        return lines_after(answer.data.decode(errors="replace"), after)


def template(wanted: Container, image: str) -> dict[str, Any]:
    """The pod template for steps that run in ``image``: the file ``[foundry] kubernetes_template_<image>``.

    Raises:
        InputError: the file is not there, is no pod, gives every step all secrets, or mounts no volume where a store in
            a folder should be.
    """
    path = option(f"kubernetes_template_{image}")
    try:
        found = yaml.safe_load(Path(path).read_text("utf-8")) if path else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"[foundry] kubernetes_template_{image} cannot be read: {error}") from None
    if not isinstance(found, dict) or found.get("kind", "Pod") != "Pod":
        raise InputError(f"[foundry] kubernetes_template_{image}={path!r} is no pod; see docs/kubernetes.md")
    containers = found.get("spec", {}).get("containers", [])
    secret = option("kubernetes_secret", SECRET)
    given = [source.get("secretRef", {}).get("name") for one in containers for source in one.get("envFrom", [])]
    if secret in given:
        raise InputError(
            f"[foundry] kubernetes_template_{image} gives all of the secret {secret!r} to every step; "
            "take it out of envFrom: a pod is given the keys that its step declares"
        )
    mounted = [mount["mountPath"].rstrip("/") for one in containers for mount in one.get("volumeMounts", [])]
    store = folders().get("store")
    if store and not any(store == path or store.startswith(f"{path}/") for path in mounted):
        raise InputError(
            f"a pod cannot see the folder {store!r}: use a store on s3://, "
            f"or mount a volume there in [foundry] kubernetes_template_{image}"
        )
    return found
