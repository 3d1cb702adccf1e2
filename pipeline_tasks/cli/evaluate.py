"""``foundry evaluate``: any retriever on any judged set, and whether one is better than another or only luckier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.local_files import named_path
from pipeline_tasks.core.made_from import read_instead
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store, open_store
from pipeline_tasks.core.versions import Version, load_manifest, resolve, resolve_name
from pipeline_tasks.domains.questions import OWN_SETS
from pipeline_tasks.evaluation.evaluate_instructions import MEASURES as OF_INSTRUCTIONS
from pipeline_tasks.evaluation.evaluation_params import MEASURES
from pipeline_tasks.evaluation.folder_params import opened
from pipeline_tasks.evaluation.judge_instructions import has_instructions
from pipeline_tasks.evaluation.p_mrr import P_MRR
from pipeline_tasks.evaluation.read_answers import read_answers
from pipeline_tasks.evaluation.scores import AVERAGE, Scores, scores_of
from pipeline_tasks.evaluation.seeds import noise_in_words
from pipeline_tasks.evaluation.statistics import Difference
from pipeline_tasks.evaluation.systems import kind_of
from pipeline_tasks.models.use import identity

_NO_NAME = re.compile(r"[^a-z0-9._-]+")
LAST = "last"


def evaluate_command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL…",
            help="model/<size>/<stage>[@ID], a name of `foundry models`, a model's folder, bm25, or rrf(bm25,…)",
        ),
    ],
    on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SET",
            help="judged sets: heldout, questions, one under judged/, or a folder as BEIR or DisastIR has it, or s3://…",
        ),
    ] = None,
    against: Annotated[
        str, typer.Option(metavar="MODEL", help="baseline of the comparison; last: the version before the first model")
    ] = "",
    measure: Annotated[
        list[str] | None, typer.Option(help="measure, such as ndcg@10; all are shown, the first one is compared")
    ] = None,
    by_intent: Annotated[bool, typer.Option("--by-intent", help="a column for each intent")] = False,
    split: Annotated[str, typer.Option(help="of a folder: which qrels/<split>.tsv")] = "test",
    with_title: Annotated[bool, typer.Option("--with-title", help="of a folder: prepend titles to passages")] = False,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="evaluate instruction following (p-MRR) by changed instructions")
    ] = False,
) -> None:
    """Score models on judged queries, and test which of their differences are significant."""
    store = open_store()
    against = _before(store, models[0]) if against == LAST else against
    named = list(dict.fromkeys([*models, *([against] if against else [])]))
    baseline = against or named[0]
    measures = tuple(measure or (OF_INSTRUCTIONS if instructions else MEASURES))
    shown = [P_MRR, *measures] if instructions else measure or measures[:1]
    systems, trained = _split_systems(store, named)
    values: dict[str, Any] = {"size": "", "models": [], "systems": systems, "measures": measures}
    evaluated = "evaluate_instructions" if instructions else "evaluate_retriever"
    get_step(evaluated).parse(values).identity()  # what is none is told before anything is built
    for name in on or ["questions"]:
        given, set_name = _set_inputs(store, name, split, with_title)
        if instructions:
            given["queries"] = [_instructed(store, name, set_name, given, split)]
        stored = _stored(store, given["passages"][0], systems)
        made = _run(store, evaluated, given | {"models": trained, "embeddings": stored}, set_name=set_name, **values)
        version = Version.open(store, made)
        found, *others = (scores_of(version, name) for name in shown)
        _show(store, found, others, _row_name(store, baseline), by_intent)
        for line in _left_out(store, given):
            typer.echo(line)
        for line in read_answers(store, trained, given["queries"][0], given["passages"][0]):
            typer.echo(line)
        typer.echo(found.ref)


def _run(store: Store, name: str, given: dict[str, list[str]], **values: Any) -> Ref:
    ref = run_job(store, plan(store, get_step(name), values, given), workers=settings().workers).ref
    if ref is None:
        raise RuntimeError(f"{name} made no version")
    return ref


def _set_inputs(store: Store, name: str, split: str, with_title: bool) -> tuple[dict[str, list[str]], str]:
    """The queries and passages of a set, and its name here."""
    if name in OWN_SETS and not (name == "heldout" and _are_of_a_dag(store, name)):
        passages = str(resolve(store, Ref.parse("passages")))
        queries = _run(store, "judge_queries", {"passages": [passages]}, set_name=name)
        return {"queries": [str(queries)], "passages": [passages]}, name
    if "/" not in name and not Path(name).is_dir():
        queries = resolve(store, Ref.parse(f"judged/{name}"))
        return {"queries": [str(queries)], "passages": load_manifest(store, queries).inputs["passages"]}, name
    path = named_path(name)
    called = (path.resolve() if path else Path(name)).name
    set_name = _NO_NAME.sub("-", called.lower()).strip("-.") or f"set-{short_id(called)[:8]}"
    folder = {"set_name": set_name, "folder": name, "split": split}
    passages = str(_run(store, "read_passages", {}, with_title=with_title, **folder))
    queries = _run(store, "judge_queries", {"passages": [passages]}, **folder)
    return {"queries": [str(queries)], "passages": [passages]}, set_name


def _are_of_a_dag(store: Store, name: str) -> bool:
    """Whether held-out queries are there, and no ``mtp`` to take others from: adaptation to a corpus takes its own."""
    return resolve_name(store, "mtp") is None and resolve_name(store, f"judged/{name}") is not None


def _instructed(store: Store, name: str, set_name: str, given: dict[str, list[str]], split: str) -> str:
    """The set's own instructions, where its folder has any, else those that rules make for its judged queries.

    Raises:
        InputError: the folder that the instructions are of was read again since, and is not named.
    """
    is_folder = "/" in name or Path(name).is_dir()
    if is_folder and has_instructions(opened(name, split)):
        values = {"set_name": set_name, "folder": name, "split": split}
        return str(_run(store, "judge_instructions", {"passages": given["passages"]}, **values))
    own = None if is_folder else resolve_name(store, f"instructed/{set_name}")
    made = Version.open(store, own) if own else None
    if made and made.manifest.params["folder"]:
        passages = Version.open(store, Ref.parse(given["passages"][0]))
        if other := read_instead(made, "passages", passages):
            raise InputError(
                f"{own} has the instructions of a folder for {other}, not for {passages.manifest.ref}: "
                "name that folder again with --on"
            )
        return str(own)
    return str(_run(store, "judge_instructions", given, set_name=set_name))


def _split_systems(store: Store, named: list[str]) -> tuple[list[str], list[str]]:
    """Systems that stand for themselves, and versions of ours.

    Raises:
        InputError: there is no such version.
    """
    trained = [_row_name(store, name) for name in named if kind_of(name) == "version"]
    return [name for name in named if kind_of(name) != "version"], trained


def _stored(store: Store, passages: str, systems: list[str]) -> list[str]:
    """Embeddings of exactly these passages by models of these names as they are today, where there are any."""
    found = []
    for name in systems:
        try:
            ref = resolve(store, Ref.parse(f"embeddings/{name}"))
        except InputError:
            continue
        made = load_manifest(store, ref)
        if made.inputs.get("passages") == [passages] and made.params.get("weights") == identity(name):
            found.append(str(ref))
    return found


_BEFORE = """
WITH alphas AS (SELECT dataset, version, value FROM params WHERE name = 'alpha'),
known AS (SELECT version, created_at, value FROM versions LEFT JOIN alphas USING (dataset, version) WHERE dataset = ?)
SELECT known.version FROM known JOIN known AS it ON it.version = ?
WHERE known.version <> it.version AND known.created_at <= it.created_at AND known.value IS NOT DISTINCT FROM it.value
ORDER BY known.created_at DESC, known.version LIMIT 1
"""


def _before(store: Store, name: str) -> str:
    """The version of a model before ``name``, of the same alpha: each iteration of a training is a version as well."""
    if kind_of(name) != "version":
        raise InputError(f"--against {LAST} is the version before the first model, and {name!r} is no version of ours")
    ref = resolve(store, Ref.parse(name))
    rows = query(store, _BEFORE, [ref.dataset, ref.version], rows=False).to_pylist()
    if not rows:
        raise InputError(
            f"{ref} is the first version of {ref.dataset}, or the first of its alpha: name another model for --against"
        )
    return f"{ref.dataset}@{rows[0]['version']}"


def _row_name(store: Store, name: str) -> str:
    """How the rows call it: systems by their name, versions of ours by theirs."""
    return str(resolve(store, Ref.parse(name))) if kind_of(name) == "version" else name


def _show(store: Store, found: Scores, others: list[Scores], baseline: str, by_intent: bool) -> None:
    """Worst first, so that the best is what one sees last."""
    base = found.resolve_system(baseline)
    differences = found.gains(base)
    of = f"{len(found.kinds)} intents, macro average" if len(found.kinds) > 1 else "1 intent"
    gain = " (linear gain)" * found.metric.startswith("ndcg")
    n = len(found.intents)
    title = f"{found.metric}{gain} on {found.ref}: {n:,} {'query' if n == 1 else 'queries'} of {of}"
    intents = found.kinds if by_intent else []
    heads = [f"{escape(intent)} ({found.counts[intent]})" for intent in intents]
    apart = [f"against {escape(base)}", "95%", "p"] if differences else []
    more = [other.metric for other in others]
    table = Table("system", found.metric, "95%", *more, *heads, *apart)
    for system, row in reversed(found.table.items()):
        score, means = row[AVERAGE], [f"{row[intent].mean:.3f}" for intent in intents]
        between = f"{score.low:.3f} … {score.high:.3f}"
        beside = [f"{other.mean(system):.3f}" for other in others]
        table.add_row(escape(system), f"{score.mean:.3f}", between, *beside, *means, *_apart(differences.get(system)))
    console().print(escape(title), table, sep="\n")
    for name, difference in differences.items():
        typer.echo(f"{name} against {base}: {difference.in_words()}")
    for line in noise_in_words(store, found, base):
        typer.echo(line)


def _left_out(store: Store, given: dict[str, list[str]]) -> Iterator[str]:
    """What of a set was not scored and why; of the passages, where they are the set's own."""
    sql = """SELECT reason, count(*) AS n FROM rejects WHERE dataset = $1 AND version = $2 GROUP BY ALL UNION ALL
             SELECT name, value::BIGINT FROM counters JOIN last_builds USING (run_id, dataset, version)
             WHERE name = 'queries_unjudged' AND value > 0 AND dataset = $1 AND version = $2
             ORDER BY ALL"""
    for name in (*given["queries"], *given["passages"]):
        dataset, _, version = name.partition("@")
        if dataset == "passages":
            continue
        rows = query(store, sql, [dataset, version], rows=False).to_pylist()
        if rows:
            yield f"left out of {dataset}: " + ", ".join(f"{row['reason']} {row['n']:,}" for row in rows)


def _apart(difference: Difference | None) -> list[str]:
    if difference is None:
        return []
    return [f"{difference.gain:+.3f}", f"{difference.low:+.3f} … {difference.high:+.3f}", f"{difference.p:.2g}"]
