from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import is_secret, settings


@pytest.fixture(autouse=True)
def fresh():
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_settings_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path / "s"))
    monkeypatch.setenv("FOUNDRY_WORKERS", "3")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    found = settings()
    assert (found.store, found.workers) == (tmp_path / "s", 3)
    assert found.openai_api_key.get_secret_value() == "sk-secret"
    assert "sk-secret" not in repr(found)


def test_paths_are_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOUNDRY_STORE", "here")
    monkeypatch.setenv("FOUNDRY_CACHE", "~/there")
    assert settings().store == tmp_path / "here"
    assert settings().cache == Path("~/there").expanduser()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("FOUNDRY_WORKERS", "many", "workers"), ("FOUNDRY_WORKERS", "0", "workers"), ("FOUNDRY_PROFILE", "x", "profile")],
)
def test_a_bad_value_is_named(monkeypatch, name, value, said):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"'{said}' is '{value}'.*mend the environment variable"):
        settings()


def test_a_number_of_tokens_is_no_secret():
    assert [is_secret(name) for name in ("AWS_SESSION_TOKEN", "OPENAI_API_KEY", "FOUNDRY_LLM_TOKENS_PER_MONTH")] == [
        True, True, False,
    ]  # fmt: skip


def test_an_empty_variable_is_no_value(monkeypatch):
    monkeypatch.setenv("FOUNDRY_WORKERS", "")
    assert settings().workers >= 1
