"""A DAG that begins at ``passages`` may begin at documents: ``corpus_refresh`` runs on them first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import DagIsPaused, TriggerDagRunOperator
from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from foundry_airflow.operators import SKIPS

if TYPE_CHECKING:
    from foundry_airflow.outline import OutlinedTask

REFRESH = "corpus_refresh"
_LOOK_EVERY_S = 10


def source_field(section: str) -> dict[str, Param]:
    """The field ``source`` of a form: what :class:`RefreshOperator` is given."""
    description = (
        "a folder of PDFs, or a URL or file of a list of addresses, on which corpus_refresh runs first (empty: on the "
        "passages that are there); what is not in it any more, and no search found, is withdrawn from the corpus"
    )
    return {"source": Param(None, type=["null", "string"], section=section, description=description)}


class RefreshOperator(TriggerDagRunOperator):
    """Runs ``corpus_refresh`` on a source and waits for it in the triggerer; skipped where no source is given.

    A task that was cleared runs the same refresh again, which finds what was made. Tried again it is not: the tasks of
    the refresh are, where that may help.

    Args:
        source: a template or parameter.
    """

    template_fields = (*TriggerDagRunOperator.template_fields, "source")
    ui_color = "#f4efe6"

    def __init__(self, *, source: Any, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id=REFRESH,
            trigger_run_id="{{ dag.dag_id }}__{{ run_id }}",
            reset_dag_run=True,
            fail_when_dag_is_paused=True,
            wait_for_completion=True,
            deferrable=True,
            poke_interval=_LOOK_EVERY_S,
            **{"retries": 0} | kwargs,
        )
        self.source = source

    def execute(self, context: Context) -> None:
        """Start the run, and sleep until it has ended.

        Raises:
            AirflowFailException: ``corpus_refresh`` is paused, so that no run of it would begin.
        """
        if self.source in SKIPS:
            raise AirflowSkipException("no source is given: the passages that are there are read")
        self.conf = {"source": self.source}
        try:
            super().execute(context)
        except DagIsPaused as error:
            raise AirflowFailException(
                f"{error.dag_id} is paused, and would not run on the source: unpause it, by its switch in the page or "
                f"`airflow dags unpause {error.dag_id}`, and clear this task; it runs weekly, too, from then on"
            ) from error

    @staticmethod
    def outlined(task: OutlinedTask) -> None:
        """The steps of ``corpus_refresh`` where a source is given."""
        source = task.rendered("source")
        if source not in SKIPS:
            task.run_before(task.argument("trigger_dag_id"), {"source": source})
