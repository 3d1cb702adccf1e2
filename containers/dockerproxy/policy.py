"""What may be asked of the engine: to make, start, look at, stop and remove containers of steps, and nothing else.

A request is built anew from what is known here. What is not known is refused unless it is empty, so that no field of
the engine's, present or to come, in no spelling that the engine would accept, goes past.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

NAME = r"[a-zA-Z0-9][a-zA-Z0-9_.-]*"
VERSIONED = r"(?:/v1\.\d+)?"
ROUTES = {
    "GET": {"/_ping": (), "/version": (), "/images/IMAGE/json": (), "/containers/NAME/json": (),
            "/containers/NAME/logs": ("stdout", "stderr", "timestamps", "since", "until", "tail", "follow", "details")},
    "POST": {"/containers/create": ("name",), "/containers/NAME/start": (), "/containers/NAME/stop": ("t",)},
    "DELETE": {"/containers/NAME": ("force", "v", "link")},
}  # fmt: skip
"""Method -> path -> what may stand behind its question mark."""
LABEL = ("app", "retriever-foundry")
OURS = "retriever-foundry/network"
"""A label that every container gets here, and no other container has."""
Check = Callable[[Any], bool]


class RefusedError(Exception):
    """The request is not one of a step; the message says what is wrong with it."""


@dataclass(frozen=True)
class Policy:
    """What containers of steps may be.

    Attributes:
        images: their images.
        network: their network.
        volumes: volumes, or folders of the engine's machine, that they may mount.
        sources: folders that they may mount to read alone.
    """

    images: frozenset[str]
    network: str
    volumes: frozenset[str]
    sources: frozenset[str] = frozenset()

    def create(self, asked: Any) -> dict[str, Any]:
        """The body of a request for a new container, built anew from ``asked``.

        Raises:
            RefusedError: it asks for more than steps need.
        """
        body = _allowed_fields("", asked, _CONTAINER | {"Image": lambda image: _one_of(image, self.images)})
        host = asked.get("HostConfig")
        rules = _HOST | {"NetworkMode": lambda mode: mode == self.network, "Mounts": self._mounts}
        kept = _allowed_fields("HostConfig.", host, rules)
        if lacking := [name for name in _NEEDED if not kept.get(name)]:
            raise RefusedError(f"a step's container needs HostConfig.{lacking[0]}")
        if "User" not in body or LABEL not in (body.get("Labels") or {}).items():
            raise RefusedError(f"a step's container needs a user and the label {'='.join(LABEL)}")
        return body | {"HostConfig": kept, "Labels": body["Labels"] | {OURS: self.network}}

    def _mounts(self, mounts: Any) -> bool:
        known = {"Type", "Source", "Target", "ReadOnly"}
        return isinstance(mounts, list) and all(
            isinstance(mount, dict)
            and set(mount) <= known
            and mount.get("Type") in ("volume", "bind")
            and _one_of(mount.get("Source"), self.volumes | self.sources)
            and (mount["Source"] in self.volumes or mount.get("ReadOnly") is True)
            for mount in mounts
        )

    def is_ours(self, container: Mapping[str, Any]) -> bool:
        """Whether a container, as the engine describes it, was made through this filter."""
        return (container["Config"].get("Labels") or {}).get(OURS) == self.network


def route(method: str, path: str) -> tuple[str, str, tuple[str, ...]]:
    """Its pattern in :data:`ROUTES`, the container that it names, and what may be asked behind the question mark.

    Raises:
        RefusedError: steps need no such request.
    """
    for pattern, allowed in ROUTES.get(method, {}).items():
        rule = pattern.replace("NAME", f"(?P<name>{NAME})").replace("IMAGE", r"[a-z0-9][a-z0-9._/:@-]*")
        if ".." not in path and (found := re.fullmatch(VERSIONED + rule, path)):
            return pattern, found.groupdict().get("name", ""), allowed
    raise RefusedError(f"{method} {path} is nothing that steps need")


def _allowed_fields(where: str, asked: Any, rules: Mapping[str, Check]) -> dict[str, Any]:
    if not isinstance(asked, dict):
        raise RefusedError(f"{where or 'the body'} is no object")
    for name, value in asked.items():
        if name in rules:
            if value is not None and not rules[name](value):
                raise RefusedError(f"{where}{name} may not be {str(value)[:200]!r}")
        elif value and f"{where}{name}" not in ("HostConfig", "NetworkingConfig"):
            raise RefusedError(f"{where}{name} may not be set")
    return {name: value for name, value in asked.items() if name in rules and value is not None}


def _one_of(value: Any, names: Container[str]) -> bool:
    return isinstance(value, str) and value in names


def _is(*values: Any) -> Check:
    return lambda value: value in values


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _positive(value: Any) -> bool:
    return type(value) is int and value > 0


def _table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _user(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[1-9]\d*:[1-9]\d*", value))


def _log(value: Any) -> bool:
    return isinstance(value, dict) and value.get("Type") == "json-file" and set(value) <= {"Type", "Config"}


def _cards(value: Any) -> bool:
    known = {"Driver", "Count", "DeviceIDs", "Capabilities", "Options"}
    return isinstance(value, list) and all(
        isinstance(card, dict)
        and set(card) <= known
        and card.get("Capabilities") == [["gpu"]]
        and card.get("Driver", "") in ("", "nvidia", None)
        and not card.get("Options")
        for card in value
    )


_CONTAINER: dict[str, Check] = {
    "Cmd": _texts,
    "Entrypoint": _texts,
    "Env": _texts,
    "Labels": _table,
    "User": _user,
    "WorkingDir": _is("/tmp"),  # noqa: S108
    "AttachStdout": _is(True, False),
    "AttachStderr": _is(True, False),
}
_HOST: dict[str, Check] = {
    "CapDrop": _is(["ALL"]),
    "DeviceRequests": _cards,
    "Init": _is(True),
    "LogConfig": _log,
    "Memory": _positive,
    "MemorySwap": _positive,
    "NanoCpus": _positive,
    "PidsLimit": _positive,
    "ReadonlyRootfs": _is(True),
    "SecurityOpt": _is(["no-new-privileges"]),
    "ShmSize": _positive,
    "Tmpfs": lambda value: _table(value) and set(value) == {"/tmp"},  # noqa: S108
}
_NEEDED = ("CapDrop", "Memory", "MemorySwap", "NetworkMode", "PidsLimit", "ReadonlyRootfs", "SecurityOpt")
