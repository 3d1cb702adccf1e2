"""docker-compose.yml against the settings that there are: what somebody writes into .env reaches the steps."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipeline_tasks.core.settings import Settings, _variable
from tests.containers.stack import composer, written

ROOT = Path(__file__).parents[2]
OF_THE_IMAGE = {"FOUNDRY_CACHE", "FOUNDRY_STORE_CACHE", "FOUNDRY_SCRATCH", "BUILT_IMAGE"}
BY_VALUE = {"FOUNDRY_HANDED_RESOURCES", "FOUNDRY_CALLER"}
A_FILE_ELSEWHERE = {"FOUNDRY_LLM_PRICES"}


@pytest.fixture(scope="module")
def services():
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]


@pytest.mark.parametrize("service", ["scheduler", "triggerer", "dag-processor", "foundry"])
def test_every_setting_reaches_what_plans_and_runs_steps(services, service):
    known = {_variable(name) for name in Settings.model_fields}
    given = services[service]["environment"]
    assert known - given.keys() == OF_THE_IMAGE | BY_VALUE | A_FILE_ELSEWHERE
    for name in ("LLM_PRICE_IN", "LLM_PRICE_OUT", "LLM_USD_PER_MONTH", "LLM_TOKENS_PER_MONTH", "LOG_FORMAT"):
        assert given[f"FOUNDRY_{name}"].startswith(f"${{FOUNDRY_{name}:-"), "the docs name it so"


def test_the_command_line_has_the_settings_and_files_of_airflow(services):
    ours, airflows = services["foundry"]["environment"], services["scheduler"]["environment"]
    assert ours.items() <= airflows.items()
    assert set(services["foundry"]["volumes"]) < set(services["scheduler"]["volumes"])


def test_whoever_asks_the_store_has_the_certificates_of_its_server_and_may_mount_them(services):
    asking = [one for one in services.values() if "AWS_ENDPOINT_URL_S3" in one.get("environment", ())]
    assert len(asking) == 8
    for service in asking:
        assert service["environment"]["AWS_CA_BUNDLE"] == "${S3_CA:+/etc/foundry/s3-ca.pem}"
        assert "${S3_CA:-/dev/null}:/etc/foundry/s3-ca.pem:ro" in service["volumes"]
    assert services["scheduler"]["environment"]["AIRFLOW__FOUNDRY__DOCKER_CERTIFICATES"] == "${S3_CA:-}"
    assert services["engine"]["environment"]["SOURCES"].split(",") == ["${SOURCES:-}", "${S3_CA:-}"]


def test_no_variable_of_the_file_hides_one_that_is_set_in_airflows_page(services):
    given = {name for service in services.values() for name in service.get("environment", ())}
    assert not [name for name in given if name.startswith("AIRFLOW_VAR_")]
    for service in ("scheduler", "dag-processor"):
        assert services[service]["environment"]["AIRFLOW__FOUNDRY__SOURCE"] == "${FOUNDRY_SOURCE:-}"


def test_airflow_may_stand_behind_a_proxy_and_believes_no_stranger(services):
    server = services["api-server"]
    for service in ("api-server", "scheduler", "triggerer", "dag-processor"):
        address = services[service]["environment"]["AIRFLOW__API__BASE_URL"]
        assert address == "${BASE_URL:-http://${BIND:-127.0.0.1}:${PORT:-8080}}"
    assert "--proxy-headers" in server["command"], "without it FORWARDED_ALLOW_IPS says nothing"
    assert server["environment"]["FORWARDED_ALLOW_IPS"] == "${FORWARDED_ALLOW_IPS:-127.0.0.1}"


@pytest.mark.parametrize(
    ("address", "secure"), [("https://x.example", "True"), ("http://127.0.0.1:8080", ""), ("", "")]
)
def test_cookies_are_for_tls_alone_where_browsers_use_it(address, secure):
    variables = {"PATH": os.environ["PATH"], "AIRFLOW__API__BASE_URL": address}
    command = ["sh", "containers/airflow/entrypoint", "sh", "-c", 'echo "${AIRFLOW__FAB__COOKIE_SECURE:-}"']
    assert subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True).stdout.strip() == secure


def hashes(env_file: Path, told: str = "") -> dict[str, str]:
    """What Compose compares of every service, once `make up` has written what ``env_file`` lacks."""
    if told:
        env_file.write_text(told, "utf-8")
    written(env_file)
    chosen = ["--project-name", "x", "--profile", "ray", "--env-file", str(env_file)]
    command = [*composer(), *chosen, "config", "--hash", "*"]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return dict(line.split() for line in ran.stdout.splitlines())


AIRFLOWS = {"init", "api-server", "scheduler", "triggerer", "dag-processor"}


@pytest.mark.parametrize(
    ("name", "services"),
    [("PARAMETERS", AIRFLOWS), ("RESOURCES", AIRFLOWS), ("S3_CA", AIRFLOWS | {"ray-head", "ray-worker"})],
)
def test_make_up_replaces_what_mounts_a_file_that_was_changed_and_nothing_else(tmp_path, name, services):
    file, env_file = tmp_path / "a file", tmp_path / ".env"
    file.write_text("as it was", "utf-8")
    before = hashes(env_file, f'{name}="{file}" # mine')
    assert hashes(env_file) == before
    file.with_suffix(".new").write_text("as it is", "utf-8")
    file.with_suffix(".new").replace(file)
    after = hashes(env_file)
    assert {service for service in after if after[service] != before[service]} == services


def test_a_file_to_mount_that_is_not_there_is_refused(tmp_path):
    env_file = tmp_path / ".env"
    env_file.write_text(f"PARAMETERS={tmp_path}/parameters.toml\n", "utf-8")
    command = [sys.executable, "containers/write_env.py", str(env_file)]
    told = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert told.returncode and f"PARAMETERS={tmp_path}/parameters.toml: No such file" in told.stderr
    assert len(env_file.read_text("utf-8").splitlines()) == 1


def test_every_variable_of_the_file_is_named_in_the_docs():
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    told = "".join(path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    named = {name for name in re.findall(r"\$\{([A-Z0-9_]+)", text) if not re.search(rf"\b{name}\b", told)}
    assert named <= {"COMPOSE_PROJECT_NAME", "FOUNDRY_VERSION"}
