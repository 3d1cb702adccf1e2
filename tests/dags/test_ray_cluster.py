"""The manifest of a Ray cluster, against what KubeRay's operator and Kubernetes take."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from pipeline_tasks import __version__

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((Path(__file__).parent / "raycluster_schema.json").read_text())
CLUSTER = yaml.safe_load((ROOT / "containers" / "kubernetes" / "raycluster.yaml").read_text())
GROUPS = [CLUSTER["spec"]["headGroupSpec"], *CLUSTER["spec"]["workerGroupSpecs"]]
NAMES = ["head", *(group["groupName"] for group in CLUSTER["spec"]["workerGroupSpecs"])]


def refused(document: dict) -> list[str]:
    """Where the document breaks KubeRay's schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="the extra `dev` is not installed")
    found = jsonschema.Draft202012Validator(SCHEMA).iter_errors({"spec": document["spec"]})
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def test_the_manifest_keeps_to_the_operators_schema():
    assert (CLUSTER["apiVersion"], CLUSTER["kind"]) == ("ray.io/v1", "RayCluster")
    assert refused(CLUSTER) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec.update(workers=3), "'workers' was unexpected"),
        (lambda spec: spec["workerGroupSpecs"][0].pop("maxReplicas"), "'maxReplicas' is a required property"),
        (lambda spec: spec["headGroupSpec"]["rayStartParams"].update({"num-cpus": 0}), "0 is not of type 'string'"),
    ],
)
def test_the_schema_refuses_what_the_operator_does(change, said):
    other = deepcopy(CLUSTER)
    change(other["spec"])
    assert any(said in error for error in refused(other))


@pytest.mark.parametrize("group", GROUPS, ids=NAMES)
@pytest.mark.parametrize("release", ["1.31", "1.37"])
def test_its_pods_keep_to_the_schema(group, release):
    validate = pytest.importorskip("kubernetes_validate", reason="the extra `dev` is not installed")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "node"}, "spec": group["template"]["spec"]}
    validate.validate(pod, release, strict=True)


@pytest.mark.parametrize("group", GROUPS, ids=NAMES)
def test_a_node_has_the_paths_of_a_step_and_no_rights(group):
    spec = group["template"]["spec"]
    (node,) = spec["containers"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in node["volumeMounts"]}
    assert "emptyDir" in mounted["/var/local/foundry"] and "persistentVolumeClaim" in mounted["/var/cache/foundry"]
    assert node["securityContext"]["readOnlyRootFilesystem"] and spec["securityContext"]["runAsUser"] == 50000
    assert not any("value" in one for one in node["env"] if "TOKEN" in one["name"] or "KEY" in one["name"])
    assert node["image"].rpartition(":")[2] == __version__


def test_only_workers_compute_and_ray_is_the_one_of_the_image():
    pinned = (ROOT / "containers" / "steps" / "requirements.txt").read_text()
    assert f"\nray=={CLUSTER['spec']['rayVersion']} " in pinned
    assert CLUSTER["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert not find_spec("ray") or version("ray") == CLUSTER["spec"]["rayVersion"]
