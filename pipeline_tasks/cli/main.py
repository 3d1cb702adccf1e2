"""``foundry``: run steps by hand, look at what they made. Results go to stdout, logs and progress to stderr."""

from __future__ import annotations

import logging
import sys

import typer

from pipeline_tasks.cli import (
    ask,
    check,
    code,
    curves,
    domain,
    erase,
    estimate,
    evaluate,
    export,
    inspect,
    judge,
    models,
    point,
    report,
    run,
    sync,
    trace,
    upkeep,
)
from pipeline_tasks.core import lines
from pipeline_tasks.core.errors import FoundryError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
app.command("run")(run.run_command)
app.command("steps")(run.steps_command)
app.command("ls")(inspect.ls_command)
app.command("show")(inspect.show_command)
app.command("export")(export.export_command)
app.command("estimate")(estimate.estimate_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("report")(report.report_command)
app.command("sql")(inspect.sql_command)
app.command("trace")(trace.trace_command)
app.command("ask")(ask.ask_command)
app.command("tensorboard")(curves.tensorboard_command)
app.command("point")(point.point_command)
app.add_typer(judge.app, name="judge")
app.add_typer(models.app, name="models")
app.add_typer(domain.app, name="domain")
app.command("fold")(upkeep.fold_command)
app.command("metrics")(upkeep.metrics_command)
app.command("gc")(upkeep.gc_command)
app.command("check")(check.check_command)
app.command("erase")(erase.erase_command)
app.command("sync")(sync.sync_command)
app.command("stale")(code.stale_command)
app.command("lock")(code.lock_command)
app.command("doctor")(upkeep.doctor_command)


def main() -> None:
    """Entry point: errors of ours become one line and their exit code (2: do not retry, 75: try again)."""
    try:
        lines.set_up()
        app()
    except FoundryError as error:
        lines.say(f"foundry: {error}", logging.ERROR)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
