"""Which of the tasks that wait for a slot of a pool gets it first: Airflow's scheduler takes the greatest weight."""

from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def weights(bag):
    """DAG -> task -> the weight with which Airflow stores its instances."""
    from airflow.serialization.serialized_objects import DagSerialization

    found = {}
    for name, dag in bag.dags.items():
        tasks = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).tasks
        found[name] = {task.task_id: task.weight_rule.get_weight(SimpleNamespace(task=task)) for task in tasks}
    return found


def test_a_slot_goes_to_the_later_stage_of_whatever_run(weights):
    train = weights["train_retriever"]
    tuned = [f"iteration_{n}.finetune" for n in (1, 2, 3)]
    stages = [train[name] for name in ("adapt_backbone", "pretrain", *tuned, "evaluate_retriever")]
    assert stages == sorted(set(stages))


def test_every_task_comes_before_those_that_it_waited_for(bag, weights):
    for name, dag in bag.dags.items():
        for task in dag.tasks:
            later = [other for other in task.upstream_task_ids if weights[name][other] >= weights[name][task.task_id]]
            assert not later, f"{name}.{task.task_id}"
