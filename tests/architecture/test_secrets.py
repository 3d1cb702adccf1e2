"""Every step declares the secrets that its code can read, and no other."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from pipeline_tasks.core.codelock.closure import closure
from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.settings import SECRETS, Settings
from tests.architecture.test_house import ROOT, tree

READ_AS = {
    "openai_api_key": "llm",
    "embeddings_api_key": "embeddings",
    "brave_api_key": "search",
    "hf_token": "hub",
}
"""Field of the settings -> secret; an embeddings endpoint without a key of its own is asked with the LLM's."""


@cache
def reads(name: str) -> frozenset[str]:
    """Secrets whose values the file takes from the settings."""
    found = {n.attr for n in ast.walk(tree(ROOT / name)) if isinstance(n, ast.Attribute)} & READ_AS.keys()
    if "embeddings_api_key" in found:
        found -= {"openai_api_key"}
    return frozenset(READ_AS[field] for field in found)


def test_every_secret_of_the_settings_has_a_name_that_steps_can_declare():
    secret = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert secret == set(READ_AS)
    assert set(READ_AS.values()) | {"store", "engine"} == set(SECRETS)


@pytest.mark.parametrize("name", step_names())
def test_a_step_declares_the_secrets_that_it_can_read_and_no_other(name):
    step = get_step(name)
    reached = [file for file in closure(step) if file.endswith(".py")]
    assert set(step.resources.secrets) == {secret for file in reached for secret in reads(file)}
