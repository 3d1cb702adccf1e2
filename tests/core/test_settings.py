from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import (
    Settings,
    inherited,
    is_secret,
    passed_on,
    secret_values,
    secret_variables,
    settings,
)
from pipeline_tasks.core.store import open_store

VARIABLE = re.compile(r"`([A-Z_]+)`")


def test_settings_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path / "s"))
    monkeypatch.setenv("FOUNDRY_WORKERS", "3")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    found = settings()
    assert (found.store, found.workers) == (tmp_path / "s", 3)
    assert found.openai_api_key.get_secret_value() == "sk-secret"
    assert "sk-secret" not in repr(found)


def test_the_page_of_settings_has_every_variable_and_no_other():
    page = (Path(__file__).parents[2] / "docs/settings.md").read_text("utf-8")
    named = [name for row in page.splitlines() if row.startswith("| `") for name in VARIABLE.findall(row.split("|")[1])]
    assert sorted(named) == sorted(set(named))
    assert {name.removeprefix("FOUNDRY_").lower() for name in named} == Settings.model_fields.keys()


def test_paths_are_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOUNDRY_STORE", "here")
    monkeypatch.setenv("FOUNDRY_CACHE", "~/there")
    assert settings().store == tmp_path / "here"
    assert settings().cache == Path("~/there").expanduser()


@pytest.mark.parametrize(
    "given", ["gs://bucket/x", "S3://bucket/x", " s3a://bucket/x", "file:///x", Path("gs://bucket")]
)
def test_an_address_of_another_kind_is_no_folder(monkeypatch, given):
    """A backup to it would be a folder of this disk."""
    monkeypatch.setenv("FOUNDRY_STORE", str(given))
    for opened in (settings, partial(open_store, given)):
        with pytest.raises(InputError, match=f"{str(given).strip()}' is no address of a store"):
            opened()


@pytest.mark.parametrize("given", ["what?/store", "back\\slash"])
def test_a_path_in_which_no_lineage_can_be_is_refused(given):
    with pytest.raises(InputError, match="leave out question marks and backslashes"):
        open_store(given)


def test_blanks_around_the_address_of_a_store_are_none_of_it(monkeypatch, tmp_path):
    monkeypatch.setenv("FOUNDRY_STORE", " s3://bucket/x\n")
    assert settings().store == "s3://bucket/x"
    monkeypatch.chdir(tmp_path)
    assert Settings.store_place(" at 12:30/x ") == tmp_path / "at 12:30/x"
    assert Settings.store_place(Path("kept ")) == tmp_path / "kept "


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FOUNDRY_WORKERS", "many"),
        ("FOUNDRY_WORKERS", "0"),
        ("FOUNDRY_PROFILE", "x"),
        ("FOUNDRY_STORE_CACHE_GIB", "inf"),
    ],
)
def test_a_bad_value_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"{name}='{value}': .*mend the environment variable"):
        settings()


def test_a_number_of_tokens_is_no_secret():
    assert [is_secret(name) for name in ("AWS_SESSION_TOKEN", "OPENAI_API_KEY", "FOUNDRY_LLM_TOKENS_PER_MONTH")] == [
        True, True, False,
    ]  # fmt: skip


def test_an_empty_variable_is_no_value(monkeypatch):
    monkeypatch.setenv("FOUNDRY_WORKERS", "")
    assert settings().workers >= 1


def test_every_setting_but_the_secret_ones_and_what_is_given_by_value_reaches_every_step(monkeypatch, tmp_path):
    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path))
    plain = [f"FOUNDRY_{n.upper()}" for n, f in Settings.model_fields.items() if f.annotation is not SecretStr]
    plain = [*plain, "FOUNDRY_MAX_TOKENS_PER_MONTH", "OPENAI_BASE_URL"]
    for name in plain:
        monkeypatch.setenv(name, "1" if name != "FOUNDRY_STORE" else str(tmp_path))
    for name in ("FOUNDRY_EMBEDDINGS_API_KEY", "OPENAI_API_KEY", "FOUNDRY_NEW_TOKEN"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setattr("pipeline_tasks.core.settings.settings", lambda: Settings(store=tmp_path))
    assert {name for name in plain if name in passed_on(())} == set(plain) - {"FOUNDRY_PARAMETERS", "FOUNDRY_RESOURCES"}
    assert {name for name in plain if name in inherited(())} == set(plain)
    assert "secret" not in passed_on(()).values()
    assert secret_values().count("secret") == 3


def test_what_is_empty_reaches_no_step(monkeypatch):
    """It would displace what its container is given instead, such as as many workers as it has processors."""
    monkeypatch.setenv("FOUNDRY_WORKERS", "")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert not {"FOUNDRY_WORKERS", "OPENAI_API_KEY"} & passed_on(["llm"]).keys()


def test_who_this_machine_is_to_aws_stays_here(monkeypatch):
    """A pod has a role of its own, which EKS gives it where none of these is set."""
    ours = ("AWS_ROLE_ARN", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN")
    for name in ("FOUNDRY_STORE", *ours):
        monkeypatch.setenv(name, "s3://here/store")
    assert not passed_on(["store"]).keys() & {*ours}
    assert not {*ours} & {*secret_variables(["store"])}
    assert inherited(["store"]).keys() >= {*ours}
