"""What evaluations compare trained models with: what each began as."""

import pytest
from foundry_airflow.compared import compared
from foundry_airflow.operators import PlannedOperator

from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, point


@pytest.fixture
def trained(store_folder):
    """A model of a size and its stages, the first of which began as told."""

    def train(size: str, began: dict[str, str], mean_of: list[str] | None = None) -> list[str]:
        stages: list[str] = []
        for stage, params in (("pretrain", {"backbone": began}), ("finetune", {})):
            made = Manifest(
                dataset=f"model/{size}/{stage}",
                id=f"{len(stages):016x}",
                step=stage,
                code_version="1",
                rows_schema=FILES,
                key="name",
                params=params,
                inputs={"init": stages[-1:]} if stages else {"models": mean_of or []},
                rows=0,
                parts=[],
            )
            commit(LocalStore(store_folder), made)
            point(LocalStore(store_folder), made.ref)
            stages.append(str(made.ref))
        return stages

    return train


def start(told: dict) -> str:
    """What a task with these parameters scores as it came."""
    params = get_step("evaluate_retriever").parse(
        PlannedOperator(task_id="a", step="evaluate_retriever", values=told).parameters()
    )
    return params.start.name if params.has_start else ""


def test_every_model_is_compared_with_what_it_began_as(trained, store_folder):
    store = LocalStore(store_folder)
    small, other = trained("22m", {"name": "bge-small-en-v1.5"}), trained("33m", {"name": "all-mpnet-base-v2"})
    alone = compared(store, [other], None, ["bm25"])
    assert alone == {"size": "33m", "backbone": "all-mpnet-base-v2", "systems": ["bm25"]}
    both = {"size": "33m", "backbone": "all-mpnet-base-v2"}
    assert compared(store, [small, other]) == both | {"systems": ["bm25", "bge-small-en-v1.5"]}
    assert compared(store, [small, other], "minilm", None) == {"size": "33m", "backbone": "minilm", "systems": ""}


def test_a_model_that_began_as_a_mean_is_compared_with_what_those_began_as(trained, store_folder):
    of_mean = trained("22m", {"name": "bge-small-en-v1.5"})
    began = compared(LocalStore(store_folder), [trained("33m", {}, mean_of=of_mean[-1:])])
    assert began == {"size": "33m", "backbone": "bge-small-en-v1.5", "systems": ""}


def test_a_folder_whose_path_nobody_knows_is_left_out_and_told(trained, store_folder, caplog):
    store, known = LocalStore(store_folder), trained("33m", {"name": "all-mpnet-base-v2"})
    folder = trained("22m", {"name": "folder-0123456789abcdef", "sha256": "0123"})
    assert start(compared(store, [folder])) == "", "nor the size's usual one"
    assert folder[-1] in caplog.text and "folder-0123456789abcdef" in caplog.text
    assert start(compared(store, [known, folder])) == "all-mpnet-base-v2"
