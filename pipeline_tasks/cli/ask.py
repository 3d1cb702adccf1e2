"""``foundry ask``: a question to the corpus, answered by systems side by side, in the terminal or as a page."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from pipeline_tasks.ask.answers import MOST_HITS, Answer, Hit, answer
from pipeline_tasks.ask.catalog import best_first
from pipeline_tasks.ask.corpus import Corpus, open_corpus
from pipeline_tasks.ask.judging import GRADES, caution, grades, judged
from pipeline_tasks.ask.systems import open_system
from pipeline_tasks.cli.inspect import clipped, store
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import first_intent
from pipeline_tasks.domains.questions import Judgement, Question, add_judgements, read_questions

_LINE = 160
SYSTEMS = Annotated[
    list[str] | None,
    typer.Option(
        "--model", help="as for `foundry evaluate`: model/<size>/<stage>[@ID], a name, a folder, bm25, rrf(…)"
    ),
]
PASSAGES = Annotated[
    str, typer.Option("--passages", metavar="DATASET[@VERSION]", help="dataset of the passages to search")
]
TOP = Annotated[int, typer.Option(min=1, max=MOST_HITS, help="top passages per system")]


def ask_command(
    question: Annotated[str, typer.Argument(help="what you want to know; may be left out with --serve")] = "",
    model: SYSTEMS = None,
    intent: Annotated[str, typer.Option(help="search intent whose instruction is prepended; else the first")] = "",
    top: TOP = 5,
    passages: PASSAGES = "passages",
    fmt: Annotated[Literal["table", "json"], typer.Option("--format", help="output format")] = "table",
    grade: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PASSAGE=GRADE[:QUOTE]", help="judge a passage, by its rank with the first model or its id"
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="file of judged questions that grades are added to")] = None,
    serve: Annotated[bool, typer.Option("--serve", help="a page on this machine's loopback, until Ctrl-C")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port of the page; 0: any that is free")] = 8090,
) -> None:
    """Ask the corpus: passages with document, page, address and score, and why each is there.

    Grades: 2 answers, 1 helps, 0 does neither. A judgement quotes the sentence shown, or what follows the colon.
    """
    corpus = open_corpus(store(), Ref.parse(passages))
    reader = Reader(corpus.store)
    if serve:
        _serve(corpus, reader, model or [], save, port)
        return
    if grade and not save:
        raise InputError("--grade judges, and nothing is written unless you say where: add --save questions.jsonl")
    systems = [open_system(name, corpus) for name in model or best_first(corpus, reader)[:1]]
    intent = intent or first_intent(domain_folder())
    found = answer(corpus, reader, systems, question, intent, top)
    if fmt == "json":
        shown = asdict(found) | {"judged": {i: known.model_dump() for i, known in _judgements(found, save).items()}}
        typer.echo(json.dumps(shown, ensure_ascii=False, indent=1))
    else:
        console().print(_table(found, _judgements(found, save)))
        if not found.passages:
            typer.echo("nothing was found: no passage has a word of the question", err=True)
        if found.note:
            typer.echo(found.note, err=True)
    if grade and save:
        given = [_judgement(corpus, found, one) for one in grade]
        n = add_judgements(save, [question for question, _, _ in given], [text for _, text, _ in given])
        typer.echo(f"{len(given)} judged; {save} has {n:,} questions", err=True)
        for warning in dict.fromkeys(text for _, _, text in given if text):
            typer.echo(f"of some of them: {warning}", err=True)


def _serve(corpus: Corpus, reader: Reader, names: list[str], save: Path | None, port: int) -> None:
    from pipeline_tasks.ask.server import serving

    with serving(corpus, reader, names, save, port) as (url, wait), suppress(KeyboardInterrupt):
        typer.echo(f"{url}  (Ctrl-C ends it)")
        wait()


def _judgements(found: Answer, save: Path | None) -> dict[str, Judgement]:
    if not save:
        return {}
    texts = {i: row["text"] for i, row in found.passages.items()}
    return grades(read_questions(save), found.question, found.intent, texts)


def _table(found: Answer, known: dict[str, Judgement]) -> Table:
    """A column a system, a row a rank."""
    table = Table("", box=SIMPLE_HEAD, show_lines=True)
    for column in found.columns:
        of = f"\n{column.version}" if column.version else ""
        table.add_column(
            f"{clipped(column.system)}{of}\n{column.unit}, {column.seconds:.2f} s", ratio=1, overflow="fold"
        )
    for rank in range(max((len(column.hits) for column in found.columns), default=0)):
        cells = [
            _cell(column.hits[rank], found, known, 4 if column.unit == "RRF" else 3) if rank < len(column.hits) else ""
            for column in found.columns
        ]
        table.add_row(str(rank + 1), *cells)
    return table


def _cell(hit: Hit, found: Answer, known: dict[str, Judgement], decimals: int) -> str:
    row = found.passages[hit.passage_id]
    page, last = row["page"], row["last_page"]
    pages = f", p. {page}" + (f"–{last}" if last != page else "") if page else ""
    lines = [
        f"[bold]{hit.score:.{decimals}f}[/bold]  {clipped(row['title'] or 'without title')}{pages}",
        clipped(hit.quote, _LINE),
        f"[dim]{clipped(row['url'], _LINE)}#page={row['page'] or 1}[/dim]" if row["url"] else "[dim]no address[/dim]",
        f"[dim]passage {clipped(hit.passage_id, _LINE)}[/dim]; {why(row, hit.seen, is_known=not found.note)}",
    ]
    if hit.passage_id in known:
        lines.append(f"[green]judged: {GRADES[known[hit.passage_id].grade]}[/green]")
    return "\n".join(lines)


def why(row: dict[str, Any], seen: tuple[str, ...] = (), *, is_known: bool = True) -> str:
    """What was made of a passage, on one line; ``is_known``: whether that could be found out."""
    used = row["uses"]
    facts = [f"held out ({row['split']})"] if row["split"] in ("dev", "test") else []
    facts += [f"this model trained on it as {' and '.join(seen)}"] if seen else []
    n = used["written"]["n"]
    facts += [f"source of {n} {'query' if n == 1 else 'queries'}"] if n else []
    for agreed in used["agreed"]["rows"][:1]:
        votes = ", ".join(f"{clipped(vote['model'])} {vote['rank'] or '-'}" for vote in agreed["votes"] or [])
        facts.append(f"labelled positive of {used['agreed']['n']}, ranks: {votes}")
    facts += [
        f"{kind} of {used[kind]['n']} ({', '.join(used[kind]['of'])})"
        for kind in ("positive", "negative")
        if used[kind]["n"]
    ]
    return "; ".join(facts if is_known else [*facts, "uses not known"]) or "in no pair and no build"


def _judgement(corpus: Corpus, found: Answer, given: str) -> tuple[Question, str, str]:
    """The judged question that ``PASSAGE=GRADE[:QUOTE]`` stands for, the passage, and what to know of it."""
    which, _, rest = given.partition("=")
    grade, _, quote = rest.partition(":")
    by_rank = {str(hit.rank): hit for hit in found.columns[0].hits}
    by_id = {hit.passage_id: hit for column in reversed(found.columns) for hit in column.hits}
    kind, _, name = which.partition(":")
    known = {"rank": by_rank, "id": by_id}.get(kind, {}) if name else {}
    meant = [known[name]] if name in known else [hits[which] for hits in (by_rank, by_id) if which in hits]
    if not meant or not grade.isdecimal():
        raise InputError(
            f"--grade {given!r} is not RANK=GRADE or PASSAGE_ID=GRADE of a passage that was found: write 1=2"
        )
    hit = meant[0]
    if any(other.passage_id != hit.passage_id for other in meant):
        raise InputError(
            f"--grade {given!r}: {which} is a rank, and the id of another passage: write rank:{which}={rest} or "
            f"id:{which}={rest}"
        )
    question = judged(corpus, found.question, found.intent, hit.passage_id, int(grade), quote or hit.quote)
    return question, corpus.passage(hit.passage_id)["text"], caution(corpus, hit.passage_id)
