"""What a pod's status tells: whether it has begun, what it waits for, how it ended. Pure functions of the pod."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from foundry_airflow.calls import KILLED, Ended, starved
from foundry_airflow.pods import STEP

OVER = ("Succeeded", "Failed")
LOST_AFTER = timedelta(minutes=5)
"""Longer than any pod has to end by itself: ``deletionTimestamp`` is when that time is over."""
BELIEVED_AFTER = timedelta(minutes=1)
"""Longer than a pod's other containers have to stop (``GRACE_S``): until then its node holds back why it ends them."""


def has_begun(pod: dict[str, Any]) -> bool:
    """Whether its container runs or has run."""
    states = [one.get("state") for one in _statuses(pod)]
    return pod["status"].get("phase") in OVER or any(state and "waiting" not in state for state in states)


def is_over(pod: dict[str, Any]) -> bool:
    """Whether it has ended or is being removed."""
    return ended(pod) is not None or bool(pod["metadata"].get("deletionTimestamp"))


def waiting(pod: dict[str, Any]) -> str:
    """What a pod that has not begun waits for: a node, an image, a secret."""
    if has_begun(pod):
        return ""
    reasons = [one["state"]["waiting"] for one in _statuses(pod) if "waiting" in one.get("state", {})]
    conditions = pod["status"].get("conditions") or ()
    reasons += [one for one in conditions if one.get("type") == "PodScheduled" and one["status"] != "True"]
    messages = [": ".join(filter(None, (one.get("reason"), one.get("message")))) for one in reasons]
    return ", ".join(["waits", *messages[:1]])


def ended(pod: dict[str, Any]) -> Ended | None:
    """How it ended, if it has: exit code, result, and what ended it, if the step did not.

    The phase alone does not say: a pod whose step has ended is ``Running`` while a container beside it runs. Nor does
    a step that has just failed: it may have been evicted or out of time, which the pod says when all have stopped.
    """
    status = pod["status"]
    done: dict[str, Any] = next(
        (one["state"]["terminated"] for one in _statuses(pod) if "terminated" in one.get("state", {})), {}
    )
    if status.get("phase") not in OVER and not (done and _is_believed(done)):
        return None
    why, code = "", done.get("exitCode", KILLED)
    if cramped := starved(code, done.get("reason") == "OOMKilled"):
        limits = next(one["resources"]["limits"] for one in pod["spec"]["containers"] if one["name"] == STEP)
        why = f"out of memory, its limit is {limits['memory']}; raise [foundry] memory_factor"
    elif status.get("reason"):
        why = ": ".join(filter(None, (status["reason"], status.get("message"))))
    last = (done.get("message") or "").strip().splitlines()
    return Ended(code, last[-1].strip() if last else "", why, cramped)


def _is_believed(done: dict[str, Any]) -> bool:
    """Whether how a step ended says how its pod does: a success does at once, a failure after a while.

    One without a time, or with that of a clock that is far ahead, does at once.
    """
    if done.get("exitCode") == 0 or not done.get("finishedAt"):
        return True
    return abs(datetime.now(UTC) - datetime.fromisoformat(done["finishedAt"])) > BELIEVED_AFTER


def lost(pod: dict[str, Any]) -> Ended | None:
    """The end of a pod whose node does not answer: it was deleted long ago, and nobody says that it has stopped."""
    deleted = pod["metadata"].get("deletionTimestamp")
    if pod["status"].get("phase") in OVER or not deleted:
        return None
    if datetime.now(UTC) - datetime.fromisoformat(deleted) <= LOST_AFTER:
        return None
    return Ended(KILLED, why=": ".join(filter(None, ("its node does not answer", pod["status"].get("reason")))))


def never_begins(pod: dict[str, Any], limit_m: float) -> Ended | None:
    """The end of a pod that has waited for too long: an image or a node that never comes must be told."""
    waits = waiting(pod)
    if not waits or datetime.now(UTC) - datetime.fromisoformat(_made_at(pod)) <= timedelta(minutes=limit_m):
        return None
    return Ended(KILLED, why=f"its pod did not begin within {limit_m:g} minutes: {waits}")


def _made_at(pod: dict[str, Any]) -> str:
    return pod["metadata"]["creationTimestamp"]


def _statuses(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in pod["status"].get("containerStatuses") or () if one.get("name") == STEP]
