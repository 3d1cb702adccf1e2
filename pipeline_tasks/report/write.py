"""A report as a file."""

from __future__ import annotations

from pathlib import Path

from pipeline_tasks.core import durable
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.disk import space_in, writable
from pipeline_tasks.report.content import Report
from pipeline_tasks.report.history_report import history_report
from pipeline_tasks.report.markdown import markdown
from pipeline_tasks.report.page import LINEAGE, page
from pipeline_tasks.report.run_report import run_report


def report_of(store: Store, name: str | None = None, everything: bool = False) -> Report:
    """The report of the evaluation or model ``name`` (none: of what was evaluated last), or that across all runs.

    Raises:
        InputError: there is nothing to report on.
    """
    return history_report(store) if everything else run_report(store, name)


def write_report(
    store: Store, target: Path, name: str | None = None, *, everything: bool = False, lineage: str = LINEAGE
) -> None:
    """Write :func:`report_of` to ``target``, whole or not at all: Markdown where it ends in ``.md``, else a page.

    Raises:
        InputError: there is nothing to report on, matplotlib or jinja2 is missing, or the file cannot be written.
        TransientError: the disk is full.
    """
    report = report_of(store, name, everything)
    text = markdown(report) if target.suffix == ".md" else page(report, lineage)
    with space_in(target.parent), writable(target, "name another file"):
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.writing")
        fresh.write_text(text, encoding="utf-8")
        durable.replace(fresh, target)
