"""A throwaway Airflow and a throwaway store; Airflow reads its home when first imported, so this comes first."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from foundry_airflow.local_run import configure

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_home = tempfile.TemporaryDirectory(prefix="foundry-airflow-")
configure(Path(_home.name), ROOT / "dags")
sys.path.insert(0, str(HERE))
from local_runs import LocalRuns, local_runs  # noqa: E402


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="module")
def bag(root):
    """All DAG files, as Airflow reads them."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(root / "dags")


@pytest.fixture(scope="session")
def toy_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRuns]:
    """Runs of the toy DAGs."""
    with local_runs(tmp_path_factory.mktemp("airflow")) as runs:
        yield runs


@pytest.fixture
def store_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty store that this process and its children use."""
    from pipeline_tasks.core.settings import settings

    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    return tmp_path / "store"


@pytest.fixture
def told(store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the operator's parameters."""
    from pipeline_tasks.core.settings import settings

    def write(text: str) -> None:
        (tmp_path / "parameters.toml").write_text(text)
        monkeypatch.setenv("FOUNDRY_PARAMETERS", str(tmp_path / "parameters.toml"))
        settings.cache_clear()

    return write


@pytest.fixture
def toys(store_folder: Path, monkeypatch: pytest.MonkeyPatch):
    """The toy steps in place of the real ones, here and in child processes."""
    from foundry_airflow import process

    from pipeline_tasks.core import registry

    monkeypatch.setattr(registry, "PACKAGE", "toys")
    monkeypatch.setattr(registry, "ROOMS", ("room",))
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-m", "toys.cli"))
    registry.step_names.cache_clear()
    yield
    registry.step_names.cache_clear()
