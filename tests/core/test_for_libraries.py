"""What libraries are told through the environment reaches them, whatever it was that started the command."""

import os
import subprocess
import sys

import pytest
import torch

from pipeline_tasks.core.settings import FOR_LIBRARIES

A_COMMAND = "from pipeline_tasks.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
AN_ACTOR = "from pipeline_tasks.core.engines.actors import Computing\nComputing(tells=False)\n"
OPENMP = "import faiss"
ONEDNN = (
    A_COMMAND
    + """
import torch
weights = torch.ones(64, 64).bfloat16()
for rows in (*range(2, 82), 2):
    torch.ones(rows, 64).bfloat16() @ weights
"""
)
with_onednn = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this processor multiplies bfloat16 without oneDNN"
)


def told(code: str, given: dict[str, str]) -> str:
    """What a process says that runs a command and then ``code``, where the environment has ``given`` alone."""
    environment = {name: value for name, value in os.environ.items() if name not in FOR_LIBRARIES} | given
    command = [sys.executable, "-c", code, "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("begun", [A_COMMAND, AN_ACTOR], ids=["a command", "an actor of a Ray cluster"])
@pytest.mark.parametrize(("given", "spins"), [({}, False), ({"OMP_WAIT_POLICY": "ACTIVE"}, True)])
def test_threads_give_way_unless_the_environment_says_otherwise(begun, given, spins) -> None:
    said = told(begun + OPENMP, given | {"OMP_DISPLAY_ENV": "VERBOSE"})
    assert "GOMP_SPINCOUNT" in said
    assert ("GOMP_SPINCOUNT = '0'" not in said) == spins


@with_onednn
@pytest.mark.parametrize(("given", "expected"), [({}, "miss"), ({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "99"}, "hit")])
def test_a_kernel_of_eighty_shapes_ago_is_gone_unless_the_environment_says_otherwise(given, expected) -> None:
    said = told(ONEDNN, given | {"ONEDNN_VERBOSE": "profile_create"})
    created = [line for line in said.splitlines() if ",create:" in line and ",matmul," in line]
    assert len(created) > 80
    assert f"create:cache_{expected}" in created[-1]
