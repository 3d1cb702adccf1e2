"""What the lineage says of the models of an evaluation: what the first of their chain began as."""

from __future__ import annotations

import pytest

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import EVALUATIONS
from pipeline_tasks.report.evaluations import read
from pipeline_tasks.report.subject import lineage
from tests.report.made import rows_of, trained
from tests.stores import put

OF_THE_SIZE = {"backbone": {"name": "all-minilm-l6-v2"}}


@pytest.mark.parametrize("backbone", ["a-folder", "zz-folder"])
def test_a_mean_and_what_went_on_from_it_began_as_its_members_did(tmp_path, backbone):
    """A training that goes on from another has its size's backbone among its parameters, whatever that other was."""
    store = LocalStore(tmp_path)
    members = [trained(store, "pretrain", {"backbone": {"name": backbone}, "seed": seed}) for seed in (0, 1)]
    mean = trained(store, "average", models=members)
    after = trained(store, "pretrain", OF_THE_SIZE, init=[mean])
    systems = {"22m/average": (0.1, mean), "22m/pretrain": (0.2, after), "22m/untrained": (0.0, "")}
    ref = put(store, EVALUATIONS, rows_of(systems, 8), dataset="eval/judged")
    with lineage(store) as ask:
        scores = read(ask, str(ref))
    assert scores.starts == {mean: backbone, after: backbone}
