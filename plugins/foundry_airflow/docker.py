"""The engine ``docker``: one container a call, on the engine that ``DOCKER_HOST`` names.

A container has no rights beyond its limits: not root, no capabilities, a read-only root with ``/tmp`` in memory. The
folders of the store and of the weights are mounted under the same paths as here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from time import sleep
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container as Handle
from docker.types import DeviceRequest, LogConfig, Mount

from foundry_airflow.calls import EXIT_TIMEOUT, KILLED, Call, Ended, lines_after, starved
from foundry_airflow.containers import TMP, Container, certificates, container_of, folders, only_read, option
from foundry_airflow.engines import Look
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.settings import settings

GRACE_S = 10
LIVE = ("created", "running", "restarting", "paused")
NOT_FOUND, CONFLICT, FORBIDDEN = 404, 409, 403
GONE = "no such container"
LOOKS, PAUSE_S = 50, 0.1
MIB = 2**20
LAST_LINES = 1000
"""The result is the last line of the standard output; the engine counts the lines of both streams."""


@contextmanager
def docker_errors() -> Iterator[None]:
    """Turn the engine's errors into ours: refused for good, or worth another try."""
    try:
        yield
    except APIError as error:
        passing = error.is_server_error() or error.status_code == CONFLICT or GONE in str(error.explanation).lower()
        raise (TransientError if passing else InputError)(f"Docker refused: {error.explanation or error}") from None
    except (DockerException, requests.RequestException) as error:
        raise TransientError(f"Docker does not answer; does DOCKER_HOST name a running engine? {error}") from None


class Docker:
    """See :class:`foundry_airflow.engines.Engine`."""

    @cached_property
    def _client(self) -> docker.DockerClient:
        """Made at the first request, as one of them: making it asks the engine which version it speaks."""
        return docker.from_env()

    def start(self, call: Call) -> bool:
        """Run ``call``; of two tasks that do so at once one makes the container, and both follow it."""
        with docker_errors():
            handle = self._find(call.name)
            if handle and handle.status not in LIVE:
                handle.remove(force=True)
                handle = None
            fresh = handle is None
            handle = handle or self._create(container_of(call))
            try:
                handle.start()
            except APIError:
                if fresh:
                    self.end(call.name)
                raise
        return fresh

    def look(self, name: str, after: str) -> Look:
        """Its standard error since ``after``, and its state; the last line of its standard output when it has ended."""
        with docker_errors():
            handle = self._find(name)
            if handle is None:
                return Look(after=after, ended=Ended(KILLED, why="its container is gone; somebody removed it"))
            state = handle.attrs["State"]
            lines, after = _new(handle, after)
            ended = None if handle.status in LIVE else _ended(handle, state)
        return Look(lines, after, ended=ended)

    def end(self, name: str) -> None:
        """Stop it, by force after a while, and remove it."""
        with docker_errors():
            handle = self._find(name)
            if handle is None:
                return
            try:
                handle.stop(timeout=GRACE_S)
                handle.remove(force=True)
            except NotFound:
                return
            except APIError as error:
                if error.status_code != CONFLICT:
                    raise

    def _find(self, name: str) -> Handle | None:
        try:
            return self._client.containers.get(known_as(name))
        except NotFound:
            return None

    def _create(self, wanted: Container) -> Handle:
        arguments = run_arguments(wanted)
        try:
            return self._client.containers.create(**arguments)
        except ImageNotFound:
            self._pull(wanted.image)
            return self._client.containers.create(**arguments)
        except APIError as error:
            if error.status_code != CONFLICT:
                raise
            return self._made_by_another(wanted.name)

    def _made_by_another(self, name: str) -> Handle:
        """A name is taken a moment before its container can be found."""
        for _ in range(LOOKS):
            if handle := self._find(name):
                return handle
            sleep(PAUSE_S)
        raise TransientError(f"Docker says that there is a container {name}, and does not find it")

    def _pull(self, image: str) -> None:
        try:
            self._client.images.pull(image)
        except APIError as error:
            if error.status_code not in (NOT_FOUND, FORBIDDEN):
                raise
            raise InputError(
                f"there is no image {image!r}, and none can be pulled: build it on the engine's machine "
                f"(`make images`), or name another in [foundry]: {error.explanation or error}"
            ) from None


def known_as(name: str) -> str:
    """The container's name: installations on one engine may call their stores alike, their networks tell them apart."""
    return f"{name}-{digest(option('docker_network', 'bridge'))[:6]}"


def run_arguments(wanted: Container) -> dict[str, Any]:
    """``wanted`` in the words of the Docker SDK."""
    gpus = [DeviceRequest(count=wanted.gpus, capabilities=[["gpu"]])] if wanted.gpus else None
    return {
        "name": known_as(wanted.name),
        "image": wanted.image,
        "entrypoint": ["timeout", "--kill-after", str(GRACE_S), str(wanted.timeout_s)],
        "command": list(wanted.command),
        "environment": wanted.environment | {name: value for name, value in wanted.secrets.items() if value},
        "labels": wanted.labels,
        "user": user(),
        "working_dir": TMP,
        "mounts": [
            *(_mount(path, option(f"docker_{name}")) for name, path in folders().items()),
            *(_read_only(path) for path in only_read()),
        ],
        "network": option("docker_network", "bridge"),
        "init": True,
        "read_only": True,
        "tmpfs": {TMP: "rw,nosuid,nodev,exec,mode=1777"},
        "shm_size": f"{wanted.memory_mib // 2}m",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": 4096,
        "mem_limit": wanted.memory_mib * MIB,
        "memswap_limit": wanted.memory_mib * MIB,
        "nano_cpus": int(wanted.cpus * 1e9) or None,
        "device_requests": gpus,
        "log_config": LogConfig(type="json-file", config={"max-size": "50m", "max-file": "2"}),
    }


def user() -> str:
    """``uid:gid`` of the steps: ``[foundry] docker_user``, else Airflow's own, because it shares the store's folder.

    Raises:
        InputError: that is root.
    """
    found = option("docker_user", f"{os.getuid()}:{os.getgid()}")
    if found.split(":")[0] in ("", "0", "root"):
        raise InputError(
            f"[foundry] docker_user is {found!r}, and steps do not run as root; "
            "name the user who owns the store's folder, for example 1000:1000"
        )
    return found


def _mount(path: str, known_as: str) -> Mount:
    """``path`` under the same name inside; ``known_as``: the folder or volume that the engine knows it by.

    Raises:
        InputError: nobody says how the engine knows it, and it cannot be made here.
    """
    if not known_as:
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"the folder {path}, which steps need mounted, cannot be made ({error.strerror})"
            raise InputError(
                f"{problem}; set FOUNDRY_STORE, FOUNDRY_CACHE or FOUNDRY_STORE_CACHE to another"
            ) from error
    source = known_as or path
    return Mount(path, source, type="bind" if source.startswith("/") else "volume")


def _read_only(path: Path) -> Mount:
    """``path`` under the same name inside, from where the engine knows it."""
    return Mount(str(path), _known_as().get(path, str(path)), type="bind", read_only=True)


def _known_as() -> dict[Path, str]:
    """What is mounted to be read -> the engine's name for it, where ``[foundry]`` tells another one.

    Raises:
        InputError: ``docker_sources`` tells another number of folders than there are.
    """
    roots, text = settings().roots, option("docker_sources")
    names = [name for name in text.split(os.pathsep) if name]
    if names and len(names) != len(roots):
        raise InputError(
            f"[foundry] docker_sources is {text!r}, {len(names)} folders, and FOUNDRY_SOURCE_ROOTS has {len(roots)}: "
            "name the engine's folder for each of them, in their order, joined by colons"
        )
    bundle = option("docker_certificates")
    return dict(zip(roots, names, strict=False)) | {Path(p): bundle for p in certificates().values() if bundle}


def _new(handle: Handle, after: str) -> tuple[tuple[str, ...], str]:
    """See :func:`foundry_airflow.calls.lines_after`."""
    since = datetime.fromisoformat(after).timestamp() - 1e-3 if after else None
    text = handle.logs(stdout=False, stderr=True, timestamps=True, since=since).decode(errors="replace")
    return lines_after(text, after)


def _ended(handle: Handle, state: dict[str, Any]) -> Ended:
    last = handle.logs(stdout=True, stderr=False, tail=LAST_LINES).decode(errors="replace").strip()
    limit_gib = handle.attrs["HostConfig"]["Memory"] / MIB / 1024
    cramped = starved(state["ExitCode"], state["OOMKilled"])
    why = f"out of memory, its limit is {limit_gib:g} GiB; raise [foundry] memory_factor" if cramped else ""
    code = EXIT_TIMEOUT if not why and _was_late(handle, state) else state["ExitCode"]
    return Ended(code, last.splitlines()[-1] if last else "", why or state.get("Error", ""), cramped)


def _was_late(handle: Handle, state: dict[str, Any]) -> bool:
    """Whether it was killed when its time was over: ``timeout`` then ends by the signal that it sends."""
    allowed_s = float((handle.attrs["Config"].get("Entrypoint") or ["0"])[-1])
    took_s = _time(state["FinishedAt"]) - _time(state["StartedAt"])
    return state["ExitCode"] == KILLED and 0 < allowed_s <= took_s


def _time(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
