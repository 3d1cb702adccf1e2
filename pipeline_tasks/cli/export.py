"""``foundry export``: a version for other tools."""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import Annotated

import typer

from pipeline_tasks.cli.inspect import DATASET, store
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.export import Format, export
from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.markdown import sections
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.evaluation.model_card import facts_of
from pipeline_tasks.report.answer import comparisons

_SAMPLE = 256
_ROWS_AT_ONCE = 4096


def export_command(
    name: DATASET,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a folder that is empty or not there yet")],
    fmt: Annotated[
        Format, typer.Option("--format", help="format of rows; a model's files stay as they are")
    ] = "parquet",
    onnx: Annotated[bool, typer.Option("--onnx", help="of a model: also export an ONNX graph, in onnx/")] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="and an int8-quantised one, its loss of quality measured")
    ] = False,
    texts: Annotated[str, typer.Option(help="passages on which ONNX graphs are compared with PyTorch")] = "passages",
) -> None:
    """Copy a version out: Parquet or JSONL for other tools, a model as a sentence-transformers folder."""
    version = Version.open(store(), Ref.parse(name))
    if version.manifest.rows_schema != FILES:
        if onnx or int8:
            raise InputError(f"{version.manifest.ref} holds rows: --onnx and --int8 are for a model")
        files = export(version, folder, fmt)
    else:
        sample = _sample(Version.open(store(), Ref.parse(texts))) if onnx or int8 else None
        files = export(version, folder, fmt, finish=lambda partial: _finished(version, partial, sample, int8))
    typer.echo(f"{version.manifest.ref}: {len(files):,} files in {folder}")


def _finished(version: Version, folder: Path, texts: list[str] | None, int8: bool) -> list[Path]:
    """Add graphs, where texts are given to compare them on, and put on the card what only the store knows."""
    graphs: dict[str, str] = {}
    if texts is not None:
        from pipeline_tasks.retrieval.add_onnx import add_graphs

        graphs = add_graphs(folder, texts, int8=int8, threads=settings().threads)
    for graph, words in graphs.items():
        typer.echo(f"{graph}: {words}")
    with (folder / "README.md").open("a", encoding="utf-8") as card:
        found = {"Comparisons": comparisons(version.store, version.manifest.ref), "ONNX": graphs}
        card.write(sections(facts_of(version) | found))
    return sorted((folder / "onnx").iterdir()) if graphs else []


def _sample(version: Version) -> list[str]:
    """Some passages, the same ones every time, from all over the dataset."""
    if version.manifest.rows_schema != PASSAGES.name:
        raise InputError(f"--texts {version.manifest.ref} holds {version.manifest.rows_schema!r}: name passages")
    hashed = (
        (unit_hash("export", row["passage_id"]), row["text"])
        for rows in version.batches(["passage_id", "text"], _ROWS_AT_ONCE)
        for row in rows.to_pylist()
    )
    return list(dict.fromkeys(text for _, text in heapq.nsmallest(_SAMPLE, hashed)))
