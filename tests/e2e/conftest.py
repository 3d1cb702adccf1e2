"""The real parts of a small run: weights, a recorded LLM on loopback, a handful of the sample documents."""

import os
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.demo.recorded_llm import Recording, load_recording, serve_recorded
from pipeline_tasks.demo.site import build_site
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import LLM, REFERENCE_MODELS


@pytest.fixture(scope="session")
def weights() -> Path:
    """The cache with every model that the chain uses, fetched where it is missing."""
    for name in (*REFERENCE_MODELS, "minilm-l12-h384"):
        fetch(get(name), settings().cache, "offline")
    return settings().cache


@pytest.fixture(scope="session")
def recording() -> Recording:
    """What was written about the sample documents."""
    return load_recording(domain_folder())


@pytest.fixture(scope="session")
def environment(weights: Path, recording: Recording) -> Iterator[dict[str, str]]:
    """What a step's process finds the parts by, the recording among them; the store is left to the test."""
    with serve_recorded(recording) as base_url:
        yield os.environ | {"OPENAI_BASE_URL": base_url, "FOUNDRY_CACHE": str(weights)}


@pytest.fixture
def by_default(environment: dict[str, str], recording: Recording) -> Iterator[dict[str, str]]:
    """As ``environment``, for runs that name no model: the recording answers to the name that they ask for."""
    named = copy(recording)
    named.name = LLM
    with serve_recorded(named) as base_url:
        yield environment | {"OPENAI_BASE_URL": base_url}


@pytest.fixture
def small_site(tmp_path: Path) -> Path:
    """A folder with four readable sample PDFs, two of them to train on and one twice, and two hard ones."""
    chosen = ("a-01", "a-05", "a-12", "b-power-outage", "a-19", "a-22")
    sample = tmp_path / "sample"
    sample.mkdir()
    for file in sorted((domain_folder() / "sample").glob("*.md")):
        if file.name.startswith(chosen):
            (sample / file.name).write_bytes(file.read_bytes())
    site = tmp_path / "site"
    build_site(sample, site)
    return site
