"""Every step declares the secrets that its code can read, and no other."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.settings import SECRETS, Settings
from tests.architecture.test_house import PACKAGE, ROOT, below, for_types_alone, imports, tree

READ_AS = {"openai_api_key": "llm", "embeddings_api_key": "embeddings", "brave_api_key": "search"}
"""Field of the settings -> secret; an embeddings endpoint without a key of its own is asked with the LLM's."""


@cache
def modules() -> dict:
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in below(PACKAGE)}


@cache
def reaches(name: str) -> frozenset[str]:
    """Modules that ``name`` imports, inside functions too, and those that these import."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            found = set(imports(modules()[at])) - for_types_alone(modules()[at])
            todo += {d if d in modules() else d.rpartition(".")[0] for d in found} & modules().keys()
    return frozenset(seen)


@cache
def reads(module: str) -> frozenset[str]:
    """Secrets whose values ``module`` takes from the settings."""
    found = {n.attr for n in ast.walk(tree(modules()[module])) if isinstance(n, ast.Attribute)} & READ_AS.keys()
    if "embeddings_api_key" in found:
        found -= {"openai_api_key"}
    return frozenset(READ_AS[field] for field in found)


def test_every_secret_of_the_settings_has_a_name_that_steps_can_declare():
    secret = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert secret == set(READ_AS)
    assert set(READ_AS.values()) | {"store"} == set(SECRETS)


@pytest.mark.parametrize("name", step_names())
def test_a_step_declares_the_secrets_that_it_can_read_and_no_other(name):
    step = get_step(name)
    needed = {secret for module in reaches(step.body.__module__) for secret in reads(module)}
    assert set(step.resources.secrets) == needed
