"""Pod specs, against the published schemas of Kubernetes and what its rules for text make of hostile values."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from foundry_airflow.backends import device_for
from foundry_airflow.calls import Call, Ended, call_of
from foundry_airflow.containers import container_of
from foundry_airflow.operators import StepOperator
from foundry_airflow.pods import SHELL, overlaid, pod

from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.resources import resources_of
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Resources
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from tests.stores import put

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "containers" / "kubernetes"
RAY = MANIFESTS / "raycluster.yaml"  # of a kind of KubeRay's: see test_ray_cluster.py
HOSTILE = ["$(OPENAI_API_KEY)", "$$(HOME)", "$(touch /x)", "`id`", "; rm -rf /", "{{ 7 }}", "a\nb", "--flag", "$x $"]


@pytest.fixture
def call(store_folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    monkeypatch.setenv("FOUNDRY_BRAVE_URL", "http://127.0.0.1/$(OPENAI_API_KEY)")
    arguments = ("run", "count", *(f"how={value}" for value in HOSTILE))
    return Call("count", "76a59d9ae48d0d8e", arguments, Resources(image="gpu", memory_gib=8, timeout_minutes=90))


def templates():
    return [{}, *(yaml.safe_load(path.read_text()) for path in sorted(MANIFESTS.glob("pod-*.yaml")))]


def expanded(text: str, environment: dict[str, str]) -> str:
    """What a kubelet makes of ``args`` and ``env``: ``$$`` is a dollar, ``$(NAME)`` the variable where there is one."""
    rule = re.compile(r"\$\$|\$\(([^)]*)\)")
    return rule.sub(lambda m: "$" if m[0] == "$$" else environment.get(m[1], m[0]), text)


@pytest.mark.parametrize("template", templates(), ids=["none", "cpu", "gpu"])
@pytest.mark.parametrize("release", ["1.31", "1.37"])
def test_pods_keep_to_the_schema(call, template, release):
    validate = pytest.importorskip("kubernetes_validate", reason="the extra `dev` is not installed")
    made = pod(container_of(call), template)
    validate.validate(made, release, strict=True)


@pytest.mark.parametrize("path", sorted({*MANIFESTS.glob("*.yaml")} - {RAY}), ids=lambda path: path.name)
def test_the_manifests_keep_to_the_schema(path):
    validate = pytest.importorskip("kubernetes_validate", reason="the extra `dev` is not installed")
    for document in yaml.safe_load_all(path.read_text()):
        validate.validate(document, "1.37", strict=True)


def test_the_step_decides_and_the_template_adds(call, monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__CPUS", "2.5")
    made = pod(container_of(call), yaml.safe_load((MANIFESTS / "pod-gpu.yaml").read_text()))
    (step,) = made["spec"]["containers"]
    assert step["resources"] == {
        "limits": {"memory": "8192Mi", "nvidia.com/gpu": "1", "cpu": "2.5"},
        "requests": {"memory": "8192Mi", "cpu": "2.5"},
    }
    assert made["spec"]["activeDeadlineSeconds"] == 90 * 60
    assert made["spec"]["serviceAccountName"] == "foundry-step" and "envFrom" not in step
    assert made["spec"]["securityContext"]["runAsNonRoot"] and made["spec"]["securityContext"]["runAsUser"] == 50000
    assert step["image"].startswith("retriever-foundry/gpu:")
    assert {mount["name"] for mount in step["volumeMounts"]} == {"cache", "tmp", "shm", "local"}
    assert made["metadata"]["name"] == call.name


@pytest.mark.parametrize(
    ("limit", "asked", "left"), [("2.5", "4", "2.5"), ("2", "2500m", "2"), ("2", "1500m", "1500m"), ("0", "4", "4")]
)
def test_a_pod_asks_for_no_more_processors_than_it_may_take(call, monkeypatch, limit, asked, left):
    """Kubernetes refuses one that does."""
    monkeypatch.setenv("AIRFLOW__FOUNDRY__CPUS", limit)
    step = {"name": "step", "resources": {"requests": {"cpu": asked}}}
    made = pod(container_of(call), {"spec": {"containers": [step]}})
    assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == left
    assert step["resources"]["requests"] == {"cpu": asked}


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_pods_share_weights_and_checkpoints_and_no_caches(call, kind):
    """A volume that several nodes mount promises no lock between them."""
    template = yaml.safe_load((MANIFESTS / f"pod-{kind}.yaml").read_text())
    made = pod(container_of(call), template)
    (step,) = made["spec"]["containers"]
    environment = {one["name"]: one["value"] for one in step["env"]}
    volumes = {volume["name"]: volume for volume in made["spec"]["volumes"]}
    mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in step["volumeMounts"]}

    def volume_of(variable):
        path = environment[variable]
        return mounted[max((at for at in mounted if path == at or path.startswith(f"{at}/")), key=len)]

    assert "emptyDir" in volume_of("FOUNDRY_STORE_CACHE")
    assert "persistentVolumeClaim" in volume_of("FOUNDRY_SCRATCH")


def test_a_template_may_bring_the_disk_of_the_caches(call):
    claim = {"name": "local", "hostPath": {"path": "/mnt/disks/foundry"}}
    made = pod(container_of(call), {"spec": {"volumes": [claim]}})
    assert [volume for volume in made["spec"]["volumes"] if volume["name"] == "local"] == [claim]


def test_a_variable_or_volume_that_both_name_has_one_kind(call):
    """The API refuses a pod in which one has two."""
    validate = pytest.importorskip("kubernetes_validate", reason="the extra `dev` is not installed")
    elsewhere = {"secretKeyRef": {"name": "other", "key": "x"}}
    names = ("FOUNDRY_STORE_CACHE", "AWS_ACCESS_KEY_ID", "THEIRS")
    container = {"name": "step", "env": [{"name": name, "valueFrom": elsewhere} for name in names]}
    claim = {"name": "tmp", "persistentVolumeClaim": {"claimName": "tmp"}}
    small = {"name": "local", "emptyDir": {"sizeLimit": "1Gi"}}
    wanted = replace(container_of(call), secrets=("AWS_ACCESS_KEY_ID",))
    made = pod(wanted, {"spec": {"containers": [container], "volumes": [claim, small]}})
    validate.validate(made, "1.37", strict=True)
    variables = {variable.pop("name"): variable for variable in made["spec"]["containers"][0]["env"]}
    assert variables["FOUNDRY_STORE_CACHE"] == {"value": "/var/local/foundry/stores"}
    assert variables["AWS_ACCESS_KEY_ID"]["valueFrom"]["secretKeyRef"]["name"] == "foundry-secrets"
    assert variables["THEIRS"] == {"valueFrom": elsewhere}
    assert made["spec"]["volumes"][:2] == [claim, small] and made["spec"]["volumes"][2]["name"] == "shm"


def test_the_operators_file_reaches_the_pod(call, tmp_path, monkeypatch):
    (tmp_path / "resources.toml").write_text("[finetune]\nmemory_gib = 48\ngpus = 2\ntimeout_minutes = 0\n")
    monkeypatch.setenv("FOUNDRY_RESOURCES", str(tmp_path / "resources.toml"))
    settings.cache_clear()
    asked = pod(container_of(replace(call, resources=resources_of(get_step("finetune")))), {})["spec"]
    assert asked["containers"][0]["resources"]["limits"] == {"memory": "49152Mi", "nvidia.com/gpu": "2"}
    assert "activeDeadlineSeconds" not in asked
    monkeypatch.setenv("AIRFLOW__FOUNDRY__GPUS", "0")
    alone = container_of(replace(call, resources=Resources(image="cpu", gpus=1)))
    assert (alone.gpus, alone.image.split(":")[0]) == (1, "retriever-foundry/gpu")


@pytest.mark.parametrize(("engine", "gpus"), [("local", 1), ("ray", 0)])
def test_the_pod_of_a_step_that_a_cluster_computes_holds_no_card(store_folder, monkeypatch, engine, gpus):
    monkeypatch.setenv("FOUNDRY_ENGINE", engine)
    settings.cache_clear()
    store = LocalStore(store_folder)
    put(store, PASSAGES, [{"passage_id": "p", "text": "flood"}])
    job = plan(store, get_step("embed_passages"), {"model": "all-minilm-l6-v2"})
    assert container_of(call_of(job, [], "")).gpus == gpus


def test_the_image_has_the_packages_that_its_values_need():
    values = yaml.safe_load((ROOT / "containers" / "helm" / "values.yaml").read_text())
    chosen = values["config"]["foundry"]["backend"]
    installed = (ROOT / "containers" / "airflow" / "requirements.txt").read_text()
    for package in (chosen, "apache-airflow-providers-amazon"):
        assert re.search(rf"^{package}==", installed, re.MULTILINE), f"the values need {package}"
    assert not values["statsd"]["enabled"] or re.search(r"^statsd==", installed, re.MULTILINE)
    assert not values["createUserJob"]["defaultUser"]["enabled"], "the chart's has a password that everybody knows"


def test_no_secret_is_in_a_pod_and_hostile_values_arrive_as_they_are(call):
    made = pod(container_of(call), {})
    (step,) = made["spec"]["containers"]
    environment = {one["name"]: one["value"] for one in step["env"]}
    assert "OPENAI_API_KEY" not in environment and "sk-secret" not in yaml.safe_dump(made)
    assert step["command"] == list(SHELL), "what a shell reads is ours; values are its arguments"
    secret = {"OPENAI_API_KEY": "sk-secret-0123456789", "HOME": "/root"}
    assert [expanded(word, secret) for word in step["args"]] == ["foundry", *call.arguments]
    assert expanded(environment["FOUNDRY_BRAVE_URL"], secret) == "http://127.0.0.1/$(OPENAI_API_KEY)"


def test_the_step_may_fill_its_own_tmp_unless_the_template_limits_it(call):
    limited = {"spec": {"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "20Gi"}}]}}
    for template, room in (({}, {}), (limited, {"sizeLimit": "20Gi"})):
        (tmp,) = [one for one in pod(container_of(call), template)["spec"]["volumes"] if one["name"] == "tmp"]
        assert tmp["emptyDir"] == room


def test_names_are_fit_for_pods_and_tell_work_apart(call):
    long = replace(call, step="near_duplicate_documents", group="100/640")
    names = {call.name, long.name, replace(call, group="0/4").name, replace(call, version="0" * 16).name}
    assert len(names) == 4
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) and len(name) <= 63 for name in names)


def test_overlay():
    below = {"a": 1, "b": {"c": 2}, "list": [{"name": "x", "k": 1}], "plain": [1]}
    above = {"b": {"d": 3}, "list": [{"name": "y"}, {"name": "x", "k": 2}], "plain": [2]}
    merged = {"a": 1, "b": {"c": 2, "d": 3}, "list": [{"name": "x", "k": 2}, {"name": "y"}], "plain": [2]}
    assert overlaid(below, above) == merged
    assert Ended(0).why == ""


@pytest.mark.parametrize(("gpus", "device"), [("1", "cuda"), ("0", "cpu")])
def test_a_model_is_named_after_the_device_of_its_container_not_of_the_scheduler(monkeypatch, gpus, device):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__BACKEND", "docker")
    monkeypatch.setenv("AIRFLOW__FOUNDRY__GPUS", gpus)
    assert device_for(get_step("finetune")) == {"device": device}
    assert StepOperator(task_id="finetune", step="finetune").parameters() == {"device": device}
    assert StepOperator(task_id="f", step="finetune", values={"device": "cpu"}).parameters() == {"device": "cpu"}
    assert device_for(get_step("embed_passages")) == {}
    monkeypatch.setenv("AIRFLOW__FOUNDRY__BACKEND", "process")
    assert device_for(get_step("finetune")) == {}
