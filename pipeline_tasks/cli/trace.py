"""``foundry trace``: the whole story of one query, as a tree."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.tree import Tree

from pipeline_tasks.cli.inspect import clipped, used_store
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.older import query_story
from pipeline_tasks.core.lineage.reader import Reader

_LINE = 100


def trace_command(
    query_id: Annotated[str, typer.Argument(metavar="QUERY_ID", help="query_id of a row of mtp")],
) -> None:
    """Trace one query: source page, LLM calls, votes, negatives, triplet builds."""
    reader = Reader(used_store())
    with reader.asking() as ask:
        found = query_story(reader, ask, query_id)
    if not found:
        raise InputError(f"no pair of any version has query_id {query_id!r}; `foundry sql 'FROM mtp'` lists the latest")
    console().print(story(found))


def story(row: dict[str, Any]) -> Tree:
    """The tree of one row of ``query_story``."""
    tree = Tree(f"[bold]{clipped(row['query'], _LINE)}[/bold]  ({row['query_id']})")
    tree.add(f"intent {row['intent']}, split {row['split']}, origin {row['origin']}")
    if row["found_in"]:
        tree.add(
            f"the latest versions do not tell it: this is of {row['found_in']}, its sources and what was made of it"
        )
    source = tree.add(f"source: {clipped(row['url'] or 'unknown', _LINE)}")
    source.add(f"document {row['doc_id']}: {clipped(row['title'] or 'without title', _LINE)}")
    source.add(f"page {row['page'] or '?'}, passage {row['passage_id']}: {clipped(row['passage'], _LINE)}")
    _add_call(tree, row, "need", "need_response_id", row["need"])
    _add_call(tree, row, "pair", "response_id", row["written_positive"])
    _add_votes(tree, row)
    _add_verdict(tree, row)
    for build in row["builds"] or []:
        _add_build(tree, build)
    if not row["builds"]:
        tree.add("in no build")
    return tree


def _add_call(tree: Tree, row: dict[str, Any], call: str, column: str, text: str | None) -> None:
    what = {"need": "information need", "pair": "query and positive"}[call]
    branch = tree.add(f"{what}: {clipped(text or '-', _LINE)}")
    if not row[column]:
        branch.add("no LLM call")
    elif row[f"{call}_model"] is None:
        branch.add(f"LLM call {row[column][:16]}: its answer is not in the store")
    else:
        tokens = f"{row[f'{call}_prompt_tokens']:,} + {row[f'{call}_completion_tokens']:,} tokens"
        paid = f"{clipped(row[f'{call}_model'])}, {tokens}, ${row[f'{call}_cost_usd']:.6f}"
        branch.add(f"LLM call {row[column][:16]}: {paid}")


def _add_votes(tree: Tree, row: dict[str, Any]) -> None:
    votes = row["votes"] or [r | {"passage_ids": r["top_ids"]} for r in row["rankings"] or []]
    branch = tree.add("votes of the reference models" if votes else "not ranked yet")
    target = "labelled positive" if row["is_labelled"] else "written positive"
    for vote in votes:
        rank, score = vote["positive_rank"], vote["positive_score"]
        place = f"rank {rank}, cosine {score:.3f}" if rank and score is not None else "not among its ranked passages"
        best = ", ".join(vote["passage_ids"] or [])
        branch.add(f"{clipped(vote['model'])}: {target} at {place}; best: {best}")


def _add_verdict(tree: Tree, row: dict[str, Any]) -> None:
    if row["is_labelled"]:
        verdict = tree.add(f"[green]accepted[/green]; negatives are mined by {clipped(row['best_model'])}")
        verdict.add(f"positive {row['agreed_positive_id']}: {clipped(row['agreed_positive'], _LINE)}")
    for refusal in row["rejections"] or []:
        where = f"[red]rejected[/red] by {refusal['step']} ({refusal['dataset']})"
        tree.add(f"{where}: {clipped(refusal['reason'])}: {clipped(refusal['detail'] or '', _LINE)}")
    if not row["is_labelled"] and not row["rejections"]:
        tree.add("not judged yet")


def _add_build(tree: Tree, build: dict[str, Any]) -> None:
    score = build["positive_score"]
    head = f"positive at {score:.3f} by {clipped(build['mining_model'])}" if score is not None else ""
    branch = tree.add(f"[bold]{build['dataset']}[/bold]: {len(build['negative_ids'])} negatives; {head}")
    for name, score, text in zip(build["negative_ids"], build["negative_scores"], build["negatives"], strict=True):
        shown = "–" if score is None else f"{score:.3f}"
        branch.add(f"{name}  {shown}  {clipped(text, 60)}")
