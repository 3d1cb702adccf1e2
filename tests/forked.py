"""Processes that begin with what they need already imported.

Python forks all of them from one server, which imports the list that it is given first and no other.
"""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.context import ForkServerContext

PRELOADED = [
    "tests.core.toy_steps",
    "tests.faults.toy_chain",
    "tests.e2e.chain",
    "tests.training.killable",
    "torch._dynamo",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.models.bert.tokenization_bert",
    "numba",
    # PyArrow imports it with the first table that it makes, where it is there.
    "pandas",
]


def forked() -> ForkServerContext:
    """What starts such processes."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context
