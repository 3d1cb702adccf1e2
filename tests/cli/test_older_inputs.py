"""``foundry run``, its dry run and ``foundry plan`` of a version that is older than what was held out of last."""

import os
import subprocess
import sys

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import DOCUMENTS
from tests.cli.conftest import ROOT
from tests.stores import put

RUN = ("run", "hold_out_documents")


@pytest.fixture
def foundry(tmp_path):
    environment = os.environ | {"FOUNDRY_STORE": str(tmp_path / "store"), "PYTHONPATH": str(ROOT)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipeline_tasks.cli.main", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run


def test_older_documents_are_refused_with_2_until_they_are_the_latest(foundry, tmp_path):
    store = LocalStore(tmp_path / "store")
    rows = [{"doc_id": n, "url_id": n, "content_sha256": n * 64, "text": "A river rises."} for n in "123"]
    older, newer = (put(store, DOCUMENTS, rows[:n]) for n in (2, 3))
    assert foundry(*RUN).returncode == 0
    given = ("--input", f"documents={older}")
    for arguments in ((*RUN, *given), (*RUN, *given, "--dry-run"), ("plan", "hold_out_documents", *given)):
        done = foundry(*arguments)
        assert done.returncode == 2, done.stdout
        assert f"was made of {newer}, the latest of documents" in " ".join(done.stderr.split())
    assert foundry("point", str(older)).returncode == 0
    assert foundry(*RUN, *given).returncode == 0
