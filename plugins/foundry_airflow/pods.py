"""A call as a pod: a pure function, so that what is sent to a cluster can be read and checked without one.

What belongs to the cluster (node selectors, tolerations, volumes, service account, secrets) is in a pod template in
Kubernetes' own words; what belongs to the call is laid over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from foundry_airflow.containers import TMP, Container

STEP = "step"
"""The container's name, in the template too."""
RESULT = "/dev/termination-log"
SHELL = ("/bin/sh", "-c", f'exec "$@" >{RESULT}', "foundry")
"""The standard output, which is the result, becomes the container's termination message; the log is the rest."""
GRACE_S = 10
LOCAL = "local"
"""The volume on the node's own disk for what only one machine may share: caches and locks of a store in a bucket."""
LOCAL_PATH = "/var/local/foundry"
GPU = "nvidia.com/gpu"
SECRET = "foundry-secrets"  # noqa: S105


def pod(wanted: Container, template: dict[str, Any], secret: str = SECRET) -> dict[str, Any]:
    """The pod for ``wanted``, laid over ``template``; whoever may read pods reads no secret in it.

    Its step's secrets are named one by one, as keys of the Kubernetes secret ``secret``: other steps' are not there.
    Names are Kubernetes': limits of one container, no rights, a read-only root, ``/tmp`` on the node's disk.
    """
    memory = f"{wanted.memory_mib}Mi"
    limits = {"memory": memory} | ({GPU: str(wanted.gpus)} if wanted.gpus else {})
    if wanted.cpus:
        limits["cpu"] = f"{wanted.cpus:g}"
    environment = wanted.environment | {"FOUNDRY_STORE_CACHE": f"{LOCAL_PATH}/stores"}
    container = {
        "name": STEP,
        "image": wanted.image,
        "command": list(SHELL),
        "args": [_inert(word) for word in wanted.command],
        "env": [*_plain(environment), *_from_secret(wanted.secrets, secret)],
        "resources": {"limits": limits, "requests": {"memory": memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePath": RESULT,
        "volumeMounts": [
            {"name": "tmp", "mountPath": TMP},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
            {"name": LOCAL, "mountPath": LOCAL_PATH},
        ],
        "workingDir": TMP,
    }
    ours = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": wanted.name, "labels": wanted.labels},
        "spec": {
            **({"activeDeadlineSeconds": wanted.timeout_s} if wanted.timeout_s else {}),
            "automountServiceAccountToken": False,
            "containers": [container],
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "terminationGracePeriodSeconds": GRACE_S,
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{wanted.memory_mib // 2}Mi"}},
                {"name": LOCAL, "emptyDir": {}},
            ],
        },
    }
    made = overlaid(template, ours)
    _ask_no_more_than_allowed(made["spec"]["containers"])
    return made


def _ask_no_more_than_allowed(containers: list[dict[str, Any]]) -> None:
    """Lower a template's request for processors to the limit on them: a pod that asks for more is refused."""
    for container in containers:
        needs = container.get("resources", {})
        limit = needs.get("limits", {}).get("cpu")
        if limit and _cores(needs.get("requests", {}).get("cpu", "0")) > _cores(limit):
            needs["requests"]["cpu"] = limit


def _cores(quantity: Any) -> float:
    """``2``, ``"0.5"`` or ``"500m"`` of Kubernetes."""
    text = str(quantity)
    return float(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text)


def _plain(environment: dict[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": _inert(value)} for name, value in sorted(environment.items())]


def _from_secret(names: Iterable[str], secret: str) -> list[dict[str, Any]]:
    """Optional, since a cluster may have no such key: a service without one, a store that a role opens."""
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name, "optional": True}}} for name in names
    ]


def overlaid(below: Any, above: Any) -> Any:
    """``above`` where both say something; objects by key, lists of named things by name.

    A variable is taken whole, and a volume of ``below`` that is no ``emptyDir`` stays: of two kinds the API has none.
    """
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: overlaid(below[key], value) if key in below else value for key, value in above.items()}
    if _is_of_named_things(below) and _is_of_named_things(above):
        mine = {thing["name"]: thing for thing in above}
        both = [_of_one_name(thing, mine.pop(thing["name"], {})) for thing in below]
        return both + list(mine.values())
    return above


def _of_one_name(below: dict[str, Any], above: dict[str, Any]) -> Any:
    if "value" in above or "valueFrom" in above:
        return above
    return below if "emptyDir" in above and "emptyDir" not in below else overlaid(below, above)


def _is_of_named_things(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(thing, dict) and "name" in thing for thing in value)


def _inert(text: str) -> str:
    """Kubernetes would put a variable's value in the place of ``$(NAME)``; a doubled dollar stands for itself."""
    return text.replace("$", "$$")
