"""``foundry erase``: a document goes, with all that was made of it."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from rich.table import Table

from pipeline_tasks import datasets
from pipeline_tasks.cli.inspect import used_store
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.erasure.erase import Erased, erase
from pipeline_tasks.core.erasure.proof import Findings
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json, short_id
from pipeline_tasks.core.lineage import fold, unfold
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.corpus.urls import canonical_url

_ID = re.compile(r"[0-9a-f]{16}(?:[0-9a-f]{48})?")


def erase_command(
    names: Annotated[list[str], typer.Argument(metavar="DOC_ID|SHA256|URL…", help="documents to erase")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would go")] = False,
    drop_models: Annotated[
        bool, typer.Option("--drop-models", help="also drop the models that were trained on them, and their scores")
    ] = False,
) -> None:
    """Erase documents from every version, with all that was made of them, and prove it; only when no step runs."""
    where = used_store()
    schemas = {schema.name: schema for schema in datasets.ALL}
    done = erase(
        where, {form for name in names for form in _forms(name)}, schemas, dry_run=dry_run, drop_models=drop_models
    )
    table = Table("dataset", "rows that go" if dry_run else "rows that went")
    for dataset, count in done.rows.items():
        table.add_row(dataset, f"{count:,}")
    console().print(table)
    if dry_run:
        typer.echo(f"{done.answers:,} stored answers would go")
        _tell_models(done, "; it would be dropped" if drop_models else "")
        return
    unfold(where)
    typer.echo(f"{len(done.versions):,} versions are written anew, {done.answers:,} stored answers went")
    if done.findings:
        _tell(done.findings)
    _tell_models(done, "; it is dropped" if drop_models else "")
    fold(where)


def _forms(name: str) -> set[str]:
    """What stands for ``name`` in the store: an id as it is, of an address its canonical form and its id, too."""
    if _ID.fullmatch(name):
        return {name}
    url = canonical_url(name)
    if url is None:
        raise InputError(f"{name!r} is no id, sha256 or address; `foundry trace` and `foundry sql` tell the doc_id")
    return {name, url, short_id(url)}


def _tell(findings: Findings) -> None:
    table = Table("looked at", "read", "with a trace of it")
    for kind, count in findings.looked.items():
        table.add_row(kind, f"{count:,}", f"{findings.found[kind]:,}")
    console().print(table)
    if findings.same_texts:
        typer.echo(f"{findings.same_texts:,} texts of other documents equal one of it; they stay until they are named")
    if not findings.clean:
        some = ", ".join(findings.where[:5])
        raise InputError(
            f"a trace of it is left in {findings.found.total():,} places: {some}; erase again, or mend these"
        )


def _tell_models(done: Erased, fate: str) -> None:
    """Every version of what was learned, and what makes it again, in the order in which that has to be."""
    for model in done.models:
        typer.echo(f"{model.ref} was trained on it{fate}: {_command(model)}")
    for made in done.by_models:
        typer.echo(f"{made.ref} was made with such a model{fate}: {_command(made)}")
    if done.models and not fate:
        typer.echo("what a model learned stays in it: erase with --drop-models, then run these commands")


def _command(made: Manifest) -> str:
    """What makes a version again, of the inputs that it was made of; or why that cannot be told, and what is known."""
    try:
        step = get_step(made.step)
        values = step.params.from_identity(made.params)
        folders = {name: value for name, value in values.items() if str(value).startswith("folder-")}
        params = step.parse({name: value for name, value in values.items() if name not in folders})
        inputs = {name: list(map(Ref.parse, texts)) for name, texts in made.inputs.items()}
        notes = (f"  # FOLDER: the path of the folder that it started from ({value})" for value in folders.values())
        return Job(step, params, inputs).command(**dict.fromkeys(folders, "FOLDER")) + "".join(notes)
    except InputError as error:
        known = canonical_json({"inputs": made.inputs, "params": made.params}).decode()
        return f"no command makes it again as it was ({error}); run {made.step} with {known}"
