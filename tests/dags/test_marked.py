"""What runs count as, in Airflow's own database."""

import pytest
from airflow.sdk import timezone
from foundry_airflow.internals import migrate


@pytest.fixture(scope="module")
def stored(bag):
    """The DAGs as the scheduler has them."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import sync_bag_to_db
    from airflow.models.serialized_dag import SerializedDagModel

    migrate()
    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(bag, "dags-folder", None)
    return {name: SerializedDagModel.get_dag(name) for name in bag.dags}


def begun(dag, session):
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    return dag.create_dagrun(
        run_id="one",
        run_after=timezone.utcnow(),
        run_type=DagRunType.MANUAL,
        triggered_by=DagRunTriggeredByType.TEST,
        state="running",
        session=session,
    )


def test_a_run_that_is_marked_as_failed_ends_as_failed(stored):
    from airflow import settings
    from airflow.api.common.mark_tasks import set_dag_run_state_to_failed

    ended = {}
    with settings.Session() as session:
        for name, dag in stored.items():
            run = begun(dag, session)
            set_dag_run_state_to_failed(dag=dag, run_id="one", commit=True, session=session)
            if run.state == "running":  # Airflow has left tasks to be done
                for task in run.get_task_instances(state=[None], session=session):
                    task.set_state("success", session=session)
                run.update_state(session=session)
            ended[name] = run.state
    assert ended == dict.fromkeys(stored, "failed")


@pytest.mark.parametrize(
    ("name", "skipped"), [("build_triplets", "fuse_rankings"), ("read_pairs", "read_general_pairs")]
)
def test_a_run_whose_step_fails_beside_one_that_was_skipped_has_failed(stored, name, skipped):
    from airflow import settings

    with settings.Session() as session:
        run = begun(stored[name], session)
        run.get_task_instance(skipped, session=session).set_state("skipped", session=session)
        run.update_state(session=session)
        for task in run.get_task_instances(state=[None], session=session):
            if task.task_id != "outcome":
                task.set_state("success" if task.task_id == "fold_lineage" else "failed", session=session)
        for _ in range(2):
            run.update_state(session=session)
        assert run.state == "failed"
        session.rollback()
