"""What the filter before the engine's socket lets through: what the back-end ``docker`` asks, and nothing else."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest

pytest.importorskip("docker", reason="the extra `docker` is not installed")
from docker.api.container import ContainerApiMixin
from docker.models.containers import _create_container_args
from docker.types import ContainerConfig

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "containers" / "dockerproxy"))
from policy import Policy, RefusedError, route  # noqa: E402

IMAGE, NETWORK, VOLUME = "retriever-foundry/cpu:1", "stack_steps", "stack_cache"
POLICY = Policy(frozenset({IMAGE, "retriever-foundry/gpu:1"}), NETWORK, frozenset({VOLUME}))


class Api(ContainerApiMixin):
    """The SDK's words, sent to nobody."""

    _version = "1.43"

    def create_host_config(self, *args, **kwargs):
        return super().create_host_config(*args, **kwargs | {"version": self._version})


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The body that the back-end sends for a step."""
    from foundry_airflow.calls import Call
    from foundry_airflow.containers import container_of
    from foundry_airflow.docker import run_arguments

    from pipeline_tasks.core.settings import settings
    from pipeline_tasks.core.step import Resources

    options = {"docker_network": NETWORK, "docker_cache": VOLUME, "docker_user": "50000:50000", "image_gpu": IMAGE}
    for name, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__FOUNDRY__{name.upper()}", value)
    monkeypatch.setenv("FOUNDRY_STORE", "s3://foundry/store")
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    settings.cache_clear()
    call = Call("finetune", "76a59d9ae48d0d8e", ("run", "finetune"), Resources(image="gpu", memory_gib=8))
    wanted = _create_container_args(run_arguments(container_of(call)) | {"version": Api._version})
    settings.cache_clear()
    names = {"name", "host_config", "networking_config", "platform", "command", "image"}
    host, network = wanted["host_config"], wanted["networking_config"]
    rest = {key: value for key, value in wanted.items() if key not in names}
    return ContainerConfig(
        Api._version, wanted["image"], wanted["command"], host_config=host, networking_config=network, **rest
    )


def test_what_the_back_end_asks_goes_through_unchanged(asked):
    made = POLICY.create(asked)
    assert made["Image"] == IMAGE and made["Cmd"] == ["foundry", "run", "finetune"] and made["User"] == "50000:50000"
    assert made["HostConfig"] == {name: value for name, value in asked["HostConfig"].items() if value is not None}
    assert made["HostConfig"]["DeviceRequests"][0]["Count"] == 1


HOST = {
    "Privileged": True,
    "privileged": True,
    "Binds": ["/:/host"],
    "binds": ["/:/host"],
    "Mounts": [{"Type": "bind", "Source": "/", "Target": "/host"}],
    "CapAdd": ["SYS_ADMIN"],
    "CapDrop": [],
    "Devices": [{"PathOnHost": "/dev/sda"}],
    "DeviceRequests": [{"Capabilities": [["gpu"]], "Driver": "cdi", "DeviceIDs": ["vendor/x=y"]}],
    "NetworkMode": "host",
    "PidMode": "host",
    "IpcMode": "host",
    "UsernsMode": "host",
    "UTSMode": "host",
    "CgroupnsMode": "host",
    "SecurityOpt": ["seccomp=unconfined"],
    "VolumesFrom": ["stack-postgres-1"],
    "ReadonlyRootfs": False,
    "Memory": 0,
    "PidsLimit": -1,
    "Runtime": "runc-unconfined",
    "Sysctls": {"kernel.core_pattern": "|/x"},
    "LogConfig": {"Type": "syslog", "Config": {"syslog-address": "tcp://203.0.113.1"}},
    "RestartPolicy": {"Name": "always"},
    "a field of tomorrow": 1,
}


@pytest.mark.parametrize(("name", "value"), HOST.items(), ids=HOST)
def test_a_container_with_more_rights_is_refused(asked, name, value):
    greedy = copy.deepcopy(asked)
    greedy["HostConfig"][name] = value
    with pytest.raises(RefusedError, match=name):
        POLICY.create(greedy)


@pytest.mark.parametrize("told", [{}, {"ReadOnly": False}, {"ReadOnly": "yes"}])
def test_a_folder_of_the_machine_is_there_to_be_read_alone(asked, told):
    policy = Policy(frozenset({IMAGE}), NETWORK, frozenset({VOLUME}), frozenset({"/home/ops/pdfs"}))
    folder = {"Type": "bind", "Source": "/home/ops/pdfs", "Target": "/srv/sources"}
    asked["HostConfig"]["Mounts"] = [folder | {"ReadOnly": True}]
    assert policy.create(asked)["HostConfig"]["Mounts"] == [folder | {"ReadOnly": True}]
    asked["HostConfig"]["Mounts"] = [folder | told]
    with pytest.raises(RefusedError, match="Mounts"):
        policy.create(asked)


@pytest.mark.parametrize("name", ["CapDrop", "SecurityOpt", "ReadonlyRootfs", "Memory", "PidsLimit", "NetworkMode"])
@pytest.mark.parametrize("how", ["left out", "null"])
def test_a_limit_that_is_missing_is_refused(asked, name, how):
    bare = copy.deepcopy(asked)
    del bare["HostConfig"][name]
    if how == "null":
        bare["HostConfig"][name] = None
    with pytest.raises(RefusedError, match=name):
        POLICY.create(bare)


@pytest.mark.parametrize(
    ("name", "value"),
    [("Image", "debian"), ("Image", {"a": 1}), ("image", "debian"), ("User", "0:0"), ("User", "1:0"),
     ("User", "root"), ("User", ""),
     ("User", None), ("Labels", {}), ("hostconfig", {"Privileged": True}), ("Volumes", {"/x": {}}),
     ("HostConfig", None)],
)  # fmt: skip
def test_another_image_or_user_is_refused(asked, name, value):
    with pytest.raises(RefusedError):
        POLICY.create(dict(asked) | {name: value})


@pytest.mark.parametrize(
    "request_line",
    ["GET /containers/json", "GET /v1.43/info", "POST /containers/x/exec", "POST /exec/x/start", "POST /images/create",
     "POST /build", "GET /containers/x/archive", "PUT /containers/x/archive", "POST /containers/x/attach",
     "POST /containers/x/update", "POST /containers/x/rename", "DELETE /images/x", "POST /volumes/create",
     "POST /networks/x/connect", "GET /containers/../x/json", "GET /containers/x%2f..%2fy/json", "GET /events",
     "GET /images/x/../../containers/y/json", "POST /swarm/init", "DELETE /containers/x/y", "PATCH /containers/x"],
)  # fmt: skip
def test_nothing_else_can_be_asked(request_line):
    with pytest.raises(RefusedError, match="nothing that steps need"):
        route(*request_line.split())


def test_only_containers_of_steps_are_looked_at_or_removed(asked):
    assert POLICY.is_ours({"Config": {"Labels": POLICY.create(asked)["Labels"]}})
    for labels in (None, {"com.docker.compose.service": "site"}, asked["Labels"]):
        assert not POLICY.is_ours({"Config": {"Labels": labels}})
    other = Policy(POLICY.images, "another_steps", POLICY.volumes)
    assert not other.is_ours({"Config": {"Labels": POLICY.create(asked)["Labels"]}})
    assert route("GET", "/v1.43/containers/foundry-x-1/json")[1] == "foundry-x-1"
