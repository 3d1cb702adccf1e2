"""What of the Docker back-end needs no engine; tests/containers has the rest."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("docker", reason="the extra `docker` is not installed")

from docker.errors import APIError
from foundry_airflow.calls import EXIT_TIMEOUT, KILLED, Call
from foundry_airflow.containers import container_of
from foundry_airflow.docker import Docker, _ended, run_arguments
from foundry_airflow.engines import TOLERATED, Follower
from foundry_airflow.trigger import CommandTrigger

from pipeline_tasks.core.errors import EXIT_RETRY, InputError, TransientError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import Resources


def test_copies_of_a_bucket_lie_where_the_setting_says(store_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_USER", "1000:1000")
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    monkeypatch.setenv("FOUNDRY_CACHE", str(tmp_path / "weights"))

    def where(copies: Path) -> str | None:
        monkeypatch.setenv("FOUNDRY_STORE_CACHE", str(copies))
        settings.cache_clear()
        made = run_arguments(container_of(Call("crawl", "76a59d9ae48d0d8e", (), Resources())))
        assert made["environment"]["FOUNDRY_STORE_CACHE"] == str(copies)
        return {mount["Target"]: mount["Source"] for mount in made["mounts"]}.get(str(copies))

    assert where(tmp_path / "weights" / "stores") is None, "it is mounted with what it lies in"
    assert where(tmp_path / "fast") == str(tmp_path / "fast")
    assert (tmp_path / "fast").is_dir()
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_STORE_CACHE", "copies")
    assert where(tmp_path / "fast") == "copies"
    monkeypatch.delenv("AIRFLOW__FOUNDRY__DOCKER_STORE_CACHE")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/stores, which steps need mounted, cannot be made \(Not a directory\)"):
        where(tmp_path / "file" / "stores")


@pytest.mark.parametrize("sources", ["", "/home/somebody/pdfs"])
def test_folders_of_sources_and_prices_are_mounted_to_be_read(sources, store_folder, tmp_path, monkeypatch):
    roots, prices = tmp_path / "pdfs", tmp_path / "prices.toml"
    roots.mkdir()
    prices.touch()
    monkeypatch.setenv("FOUNDRY_SOURCE_ROOTS", f"{roots}:{tmp_path / 'missing'}")
    sources = sources and f"{sources}:/home/somebody/missing"
    monkeypatch.setenv("FOUNDRY_LLM_PRICES", str(prices))
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_SOURCES", sources)
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_USER", "1000:1000")
    settings.cache_clear()
    made = run_arguments(container_of(Call("crawl", "76a59d9ae48d0d8e", (), Resources())))
    read = {mount["Target"]: mount["Source"] for mount in made["mounts"] if mount["ReadOnly"]}
    assert read == {str(roots): sources.split(":")[0] or str(roots), str(prices): str(prices)}


def test_a_step_is_told_whole_paths_of_files_and_folders_whose_names_are_short_here(
    store_folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pdfs").mkdir()
    named = {"SOURCE_ROOTS": f"pdfs{os.pathsep}/more", "LLM_PRICES": "prices.toml", "SCRATCH": "work"}
    for name, value in named.items():
        monkeypatch.setenv(f"FOUNDRY_{name}", value)
    settings.cache_clear()
    told = container_of(Call("crawl", "76a59d9ae48d0d8e", (), Resources())).environment
    assert told["FOUNDRY_SOURCE_ROOTS"] == f"{tmp_path / 'pdfs'}{os.pathsep}/more"
    assert told["FOUNDRY_LLM_PRICES"] == str(tmp_path / "prices.toml")
    assert told["FOUNDRY_SCRATCH"] == str(tmp_path / "work")


def test_the_certificates_of_the_stores_server_are_mounted_under_the_path_that_the_step_is_told(
    store_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_USER", "1000:1000")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").touch()
    monkeypatch.setenv("AWS_CA_BUNDLE", "ca.pem")
    call = Call("crawl", "76a59d9ae48d0d8e", (), Resources())
    made = run_arguments(container_of(call))
    assert made["environment"]["AWS_CA_BUNDLE"] == str(tmp_path / "ca.pem")
    assert {m["Target"]: m["Source"] for m in made["mounts"] if m["ReadOnly"]} == {
        str(tmp_path / "ca.pem"): str(tmp_path / "ca.pem")
    }
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_CERTIFICATES", "/etc/pki/ours.pem")
    (mount,) = [mount for mount in run_arguments(container_of(call))["mounts"] if mount["ReadOnly"]]
    assert (mount["Target"], mount["Source"]) == (str(tmp_path / "ca.pem"), "/etc/pki/ours.pem")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/gone/ca.pem")
    with pytest.raises(InputError, match="AWS_CA_BUNDLE=/gone/ca.pem is no file here"):
        run_arguments(container_of(call))
    monkeypatch.setenv("AWS_CA_BUNDLE", "")
    assert not [mount for mount in run_arguments(container_of(call))["mounts"] if mount["ReadOnly"]]


def test_each_folder_of_sources_has_the_engines_name_for_it(store_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_USER", "1000:1000")
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    roots = [tmp_path / "guides", tmp_path / "news"]
    for root in roots:
        root.mkdir()
    monkeypatch.setenv("FOUNDRY_SOURCE_ROOTS", ":".join(map(str, roots)))
    call = Call("crawl", "76a59d9ae48d0d8e", (), Resources())

    def sources(told):
        monkeypatch.setenv("AIRFLOW__FOUNDRY__DOCKER_SOURCES", told)
        mounts = run_arguments(container_of(call))["mounts"]
        return {mount["Target"]: mount["Source"] for mount in mounts if mount["ReadOnly"]}

    assert sources("/srv/guides:/srv/news") == {str(roots[0]): "/srv/guides", str(roots[1]): "/srv/news"}
    assert sources("") == {str(root): str(root) for root in roots}
    with pytest.raises(InputError, match="docker_sources is '/srv/guides', 1 folders, and FOUNDRY_SOURCE_ROOTS has 2"):
        sources("/srv/guides")


@pytest.mark.parametrize(("seconds", "code"), [(3599, KILLED), (3611, EXIT_TIMEOUT)])
def test_a_command_that_has_to_be_killed_when_its_time_is_over_ran_too_long(seconds, code):
    state = {"ExitCode": KILLED, "OOMKilled": False, "StartedAt": "2026-11-27T10:00:00.123456789Z"}
    state["FinishedAt"] = f"2026-11-27T{10 + seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}.223456789Z"
    attrs = {"HostConfig": {"Memory": 2**30}, "Config": {"Entrypoint": ["timeout", "--kill-after", "10", "3600"]}}
    handle = SimpleNamespace(attrs=attrs, logs=lambda **_: b"")
    assert _ended(handle, state).exit_code == code
    assert _ended(handle, state | {"OOMKilled": True}).exit_code == KILLED


@pytest.mark.parametrize(("code", "starved"), [(KILLED, True), (EXIT_RETRY, True), (0, False), (1, False), (2, False)])
def test_a_step_that_outlives_a_child_without_memory_ends_as_it_says(code, starved):
    state = {"ExitCode": code, "OOMKilled": True}
    state |= dict.fromkeys(["StartedAt", "FinishedAt"], "2026-11-27T10:00:00Z")
    attrs = {"HostConfig": {"Memory": 2**30}, "Config": {"Entrypoint": ["timeout", "3600"]}}
    ended = _ended(SimpleNamespace(attrs=attrs, logs=lambda **_: b"numbers@76a59d9ae48d0d8e\n"), state)
    assert (ended.exit_code, bool(ended.why), ended.out_of_memory) == (code, starved, starved)


@pytest.mark.parametrize("status", [403, 404])
def test_an_image_that_is_not_there_and_may_not_be_pulled_is_to_be_built(status):
    def pull(image):
        raise APIError("no", response=SimpleNamespace(status_code=status, url="", reason=""), explanation="not pulled")

    engine = object.__new__(Docker)
    engine._client = SimpleNamespace(images=SimpleNamespace(pull=pull))
    with pytest.raises(InputError, match="there is no image 'mine:1'.*`make images`.*not pulled"):
        engine._pull("mine:1")


def test_an_engine_that_is_down_is_looked_at_again_from_the_first_look_on(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    follower = Follower(Docker(), "foundry-x")
    assert [follower.look() for _ in range(TOLERATED)] == [([], None)] * TOLERATED
    with pytest.raises(TransientError, match="does DOCKER_HOST name a running engine"):
        follower.look()


def test_an_engine_that_is_silent_does_not_stop_the_triggerer(monkeypatch):
    async def others():
        waiting = asyncio.create_task(anext(CommandTrigger("docker", "foundry-x").run()))
        for _ in range(20):
            await asyncio.sleep(0.05)
        assert not waiting.done()
        waiting.cancel()

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.getsockname()[1]}")

        async def then_it_is_gone():
            try:
                await asyncio.wait_for(others(), 10)
            finally:
                server.close()

        asyncio.run(then_it_is_gone())
