"""``foundry judge``: the pool of a domain's questions, out to whoever grades it and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline_tasks.ask.corpus import open_corpus
from pipeline_tasks.ask.judging import is_known
from pipeline_tasks.ask.pool import pooled, read_pool, write_pool
from pipeline_tasks.ask.systems import open_system
from pipeline_tasks.cli.ask import PASSAGES, SYSTEMS, TOP
from pipeline_tasks.cli.inspect import store
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.questions import add_judgements, load_questions, read_questions
from pipeline_tasks.evaluation.systems import BM25
from pipeline_tasks.models.use import REFERENCE_MODELS

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Relevance judgements: pool passages of a domain's questions for a person or an LLM to grade.",
)
FILE = Annotated[Path, typer.Argument(metavar="FILE", help="JSONL, or Markdown where its name ends in .md")]


@app.command("pool")
def pool_command(
    file: FILE,
    model: SYSTEMS = None,
    questions: Annotated[Path | None, typer.Option(help="file of judged questions; else those of the domain")] = None,
    top: TOP = 5,
    passages: PASSAGES = "passages",
) -> None:
    """Pool the top passages of BM25 and the models for each question; the file hides which system found them."""
    corpus = open_corpus(store(), Ref.parse(passages))
    if questions and not questions.is_file():
        raise InputError(f"{questions} is not there: name a file of judged questions")
    asked = read_questions(questions) if questions else load_questions(domain_folder())
    names = dict.fromkeys([BM25, *(model or REFERENCE_MODELS[:2])])
    rows = pooled(corpus, [open_system(name, corpus) for name in names], asked, top)
    write_pool(rows, file)
    graded = sum(row.grade is not None for row in rows)
    typer.echo(f"{len(rows):,} passages of {len(asked):,} questions, {graded:,} of them graded already: {file}")


@app.command("read")
def read_command(
    file: FILE,
    save: Annotated[Path, typer.Option(help="file of judged questions that grades are added to")],
    passages: PASSAGES = "passages",
) -> None:
    """Add the grades of a pool to a file of judged questions; what has no grade is left out."""
    found = read_pool(open_corpus(store(), Ref.parse(passages)), file)
    before = read_questions(save)
    texts = ["" if is_known(before, question, text) else text for question, text in found]
    n = add_judgements(save, [question for question, _ in found], texts)
    typer.echo(f"{len(found):,} judged; {save} has {n:,} questions")
