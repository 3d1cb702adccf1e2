"""The real parts of a small run: weights, the LLM on loopback, a handful of the sample documents."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline_tasks.core.settings import settings
from pipeline_tasks.demo.site import build_site
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.models.fetch import fetch
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import LLM, REFERENCE_MODELS
from tests.e2e.shared_llm import shared_llm


@pytest.fixture(scope="session")
def weights() -> Path:
    """The cache with every model that the chain uses, fetched where it is missing."""
    for name in (*REFERENCE_MODELS, LLM, "minilm-l12-h384"):
        fetch(get(name), settings().cache, "offline")
    return settings().cache


@pytest.fixture(scope="session")
def llm(weights: Path, worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a real OpenAI-compatible server, whose answers all test processes share."""
    mine = tmp_path_factory.getbasetemp()
    with shared_llm((mine if worker_id == "master" else mine.parent) / "answers", weights) as base_url:
        yield base_url


@pytest.fixture(scope="session")
def environment(weights: Path, llm: str) -> dict[str, str]:
    """What a step's process finds the parts by; the store is left to the test."""
    return os.environ | {"OPENAI_BASE_URL": llm, "FOUNDRY_CACHE": str(weights)}


@pytest.fixture
def small_site(tmp_path: Path) -> Path:
    """A folder with a few readable sample PDFs, most of them to train on, and two hard ones."""
    chosen = ("a-01", "a-04", "a-12", "a-13", "a-14", "a-15", "b-lightning", "b-power-outage", "a-19", "a-22")
    sample = tmp_path / "sample"
    sample.mkdir()
    for file in sorted((domain_folder() / "sample").glob("*.md")):
        if file.name.startswith(chosen):
            (sample / file.name).write_bytes(file.read_bytes())
    site = tmp_path / "site"
    build_site(sample, site)
    return site
