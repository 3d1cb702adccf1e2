"""``foundry diversity``: whether instructions, or other texts of a dataset, are many or one in many words."""

from __future__ import annotations

import hashlib
import heapq
import json
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from pipeline_tasks.cli.inspect import store
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.versions import Version
from pipeline_tasks.evaluation.diversity import GRAMS, SAMPLE, average_similarity, inverse_gram_frequency, shown
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.open_encoder import open_encoder

_AT_ONCE = 10_000
_WORDS = {1: "words", 2: "pairs", 3: "triples"}


def diversity_command(
    datasets: Annotated[
        list[str],
        typer.Argument(metavar="DATASET[@VERSION]…", help="datasets, such as mtp/instructed or tuples/checked"),
    ],
    column: Annotated[str, typer.Option(help="column of the texts")] = "instruction",
    model: Annotated[str, typer.Option(help="encoder of the texts; `foundry models` lists them")] = REFERENCE_MODELS[0],
    most: Annotated[
        int, typer.Option("--n", min=2, help="sample size per dataset, or as many texts as the smallest has")
    ] = SAMPLE,
    fmt: Annotated[Literal["table", "json"], typer.Option("--format", help="output format")] = "table",
) -> None:
    """Measure how diverse texts are: average pairwise similarity (APS, cosine), and how many share their words.

    Datasets are compared by as many texts of each, drawn by the hash of their keys: of more texts, more share a word.
    """
    found = {}
    for name in dict.fromkeys(datasets):
        version = Version.open(store(), Ref.parse(name))
        found[str(version.manifest.ref)] = _drawn(version, column, most)
    n_drawn = min(len(texts) for _, texts in found.values())
    encoder = open_encoder(model)
    measured = [_measured(name, n, texts[:n_drawn], encoder) for name, (n, texts) in found.items()]
    if fmt == "json":
        typer.echo(json.dumps({"column": column, "n": n_drawn, "model": model, "datasets": measured}, indent=1))
        return
    table = Table(f"{column} of", "all", "different", "APS", *_WORDS.values(), box=SIMPLE_HEAD)
    for one in measured:
        shares = (one["aps"], *(one[word] for word in _WORDS.values()))
        table.add_row(escape(one["dataset"]), f"{one['all']:,}", f"{one['different']:,}", *map(shown, shares))
    out = console()
    out.print(f"{n_drawn:,} texts of each; APS by {escape(model)}", highlight=False)
    out.print(table)


def _drawn(version: Version, column: str, most: int) -> tuple[int, list[str]]:
    """How many rows have a text, and those of the rows whose keys have the smallest hashes."""
    ref, key = version.manifest.ref, version.manifest.key
    if not key or not version.has(column):
        raise InputError(f"{ref} has no column {column!r}: `foundry show {ref.dataset}` lists them; add --column")
    n, kept = 0, list[tuple[str, str]]()
    for block in version.batches([key, column], _AT_ONCE):
        if not pa.types.is_string(block[column].type):
            raise InputError(f"{column!r} of {ref} holds {block[column].type}, not texts: name another with --column")
        pairs = zip(block[key].to_pylist(), block[column].to_pylist(), strict=True)
        texts_by_hash = [(hashlib.sha256(i.encode()).hexdigest(), text) for i, text in pairs if text and text.strip()]
        n, kept = n + len(texts_by_hash), heapq.nsmallest(most, [*kept, *texts_by_hash])
    if n < 2:
        raise InputError(f"{ref} has {n} texts in {column!r}: to be alike takes two")
    return n, [text for _, text in kept]


def _measured(name: str, n: int, texts: list[str], encoder: Encoder) -> dict[str, Any]:
    with meter(f"vectors of {name}", len(texts), "texts") as progress_bar:
        vectors = encoder.encode_passages(texts, progress=progress_bar.advance)
    shares = {_WORDS[grams]: inverse_gram_frequency(texts, grams) for grams in GRAMS}
    return {"dataset": name, "all": n, "different": len(set(texts)), "aps": average_similarity(vectors)} | shares
