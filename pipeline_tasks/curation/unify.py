"""One training set in one form: a task, a query, its positive and its negatives, wherever rows are from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.arrays import list_array, offsets, one_array
from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, added, step
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.id_table import text_hashes
from pipeline_tasks.curation.same_texts import query_hashes
from pipeline_tasks.datasets import INSTRUCTED_TRIPLETS, RELABELLED
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.models.registry import SEPARATOR


class UnifyParams(StepParams):
    """What is taken of each source."""

    negatives: Literal["last", "sampled"] = Field(
        "last",
        description="negatives of a relabelled query: its lowest passages, or any below the first, sampled by its id",
    )
    n_negatives: int = Field(1, ge=1, description="negatives per relabelled query")
    builds: tuple[str, ...] = Field((), description="triplet builds to add, such as mtt/0.65")
    per_source: int | None = Field(
        None, ge=1, description="training queries per source, at most, sampled by their ids; empty: all"
    )
    per_task: int | None = added(
        None,
        ge=1,
        description="training queries per task over all sources, at most, sampled by their ids; empty: all",
    )
    format: Literal["unified", "joined"] = added(
        "unified", description="unified: a query keeps its task apart; joined: its text begins with it, for an ablation"
    )

    def identity(self) -> dict[str, Any]:
        """The parameters, and what texts begin with where their intent says it."""
        return super().identity() | ({"instructions": self.instructions} if self.format == "joined" else {})

    @cached_property
    def instructions(self) -> dict[str, str]:
        """Intent -> its instruction in the domain, read once."""
        return {name: intent.instruction for name, intent in load_intents(domain_folder()).items()}


@step(
    reads={"relabelled": RELABELLED, "builds": From(INSTRUCTED_TRIPLETS, "{item}", each="builds")},
    writes=INSTRUCTED_TRIPLETS,
    kind="reduce",
    dataset="mtt/fret",
    version="5",
)
def unify(inputs: Inputs, params: UnifyParams, run: Run) -> Iterator[pa.Table]:
    """Triplets of relabelled queries and of other builds, in one set that fine-tuning reads.

    A relabelled query has its first passage as the positive, and its last one as the negative. Where a judge gave
    grades or scores alone, a passage that it holds to be as good as the positive is no negative, and a query of which
    none is left is the reject ``no_negative``. A query of a build keeps
    its negatives, and is asked as its intent is where it has no task. ``per_source`` lets every source give as many
    queries, ``per_task`` every task (Gecko 3.3, 4.3), which is a query's instruction, else its intent; those that are
    not drawn are counted as ``not_sampled``. A query that an earlier source gives is the reject ``duplicate_id``, or
    ``duplicate_query`` where words, task and positive are the same and the id another; one to train on whose words a
    source holds out is the reject ``held_out_query``.
    ``distinct_tasks`` counts those of relabelled queries.

    ``format="joined"`` is the paper's ablation without a unified format: the task, or the intent's instruction, stands
    before the query's text (and before the passages of a symmetric set) with a blank and nothing else, and no
    instruction is left.

    Source: Gecko 3.2 and 3.3, Table 2.
    """
    relabelled = inputs["relabelled"]
    run.count("distinct_tasks", len(pc.unique(relabelled.table(["instruction"])["instruction"])))
    versions = [relabelled, *inputs.each("builds")]
    drawn = _drawn(versions, params)
    instructions = params.instructions if params.format == "joined" else None
    for source, version in enumerate(versions):
        for part in _sampled_rows(version, drawn[source], run):
            rows = part if source else _triplets(part, relabelled, params)
            yield rows if instructions is None else _joined(rows, instructions)


def _sampled_rows(version: Version, drawn: Sequence[str | None], run: Run) -> Iterator[pa.Table]:
    """The rows of a source that take part, part by part."""
    end = 0
    for part in version.parts():
        start, end = end, end + len(part)
        reasons = drawn[start:end]
        for name, reason in zip(part["query_id"].to_pylist(), reasons, strict=True):
            if reason:
                run.reject(name, reason, str(version.manifest.ref))
        run.count("not_sampled", reasons.count(None))
        yield part.filter(pa.array([reason == "" for reason in reasons], pa.bool_()))


def _drawn(versions: Sequence[Version], params: UnifyParams) -> list[list[str | None]]:
    """For each row of each source why it is refused; empty: it takes part, None: it is not drawn.

    Of other splits than training's all are drawn, and of that one those that find room. They are asked in the order
    that their ids draw, whatever source they are of, and find room while their source and their task have some. One
    that another source gives already takes no room, neither of its source nor of its task, and is drawn with it; one
    whose words a source holds out is trained on from none. A relabelled one without negatives is refused, takes no
    room, and leaves its place to those that are its like.
    """
    sources = [_queries(version) for version in versions]
    held_out = np.concatenate([rows["words"].filter(pc.invert(rows["trains"])).to_numpy() for rows in sources])
    pairs, n_sources = np.unique(np.concatenate([pc.unique(rows["pair"]) for rows in sources]), return_counts=True)
    drawn: list[list[str | None]] = [[None] * len(rows) for rows in sources]
    bare = _without_negatives(versions[0])
    given, leaders, training = dict[str, int](), dict[int, str](), []
    for source, rows in enumerate(sources):
        is_held_out = np.isin(rows["words"].to_numpy(), held_out).tolist()
        shared = np.where(np.isin(rows["pair"].to_numpy(), pairs[n_sources > 1]), rows["pair"].to_numpy(), 0).tolist()
        columns = (rows[name].to_pylist() for name in ("query_id", "task", "trains"))
        for row, (name, task, trains, held, pair) in enumerate(zip(*columns, is_held_out, shared, strict=True)):
            if not source and bare[row]:
                drawn[source][row] = "no_negative"
            elif not trains:
                drawn[source][row] = "duplicate_id" if given.setdefault(name, source) != source else ""
            elif held:
                drawn[source][row] = "held_out_query"
            else:
                leader = leaders.setdefault(pair, name) if pair else name
                training.append((unit_hash("unify", leader), source, row, name, task, pair))
    of_source, of_task, givers = Counter[int](), Counter[str | None](), dict[int, int]()
    for _, source, row, name, task, pair in sorted(training, key=itemgetter(0, 1)):
        reason = "duplicate_query" if givers.get(pair, source) != source else ""
        if given.get(name, source) != source:
            reason = "duplicate_id"
        if not reason:
            if _is_full(of_source[source], params.per_source) or _is_full(of_task[task], params.per_task):
                continue
            given[name] = source
            of_source[source] += 1
            of_task[task] += 1
            if pair:
                givers[pair] = source
        drawn[source][row] = reason
    return drawn


def _without_negatives(relabelled: Version) -> list[bool]:
    """Of each query whether a judge holds all its passages to be as good as the positive."""
    found = []
    for part in relabelled.parts(["likelihoods", "relevances"]):
        columns = zip(*(part[name].to_pylist() for name in part.column_names), strict=True)
        found += [len(grades) > 1 and not len(_worse(scores, grades)) for scores, grades in columns]
    return found


def _queries(version: Version) -> pa.Table:
    """Of each query its id, its task, whether it trains, a hash of its words, and one of these, task and positive."""
    rows = version.table(["query_id", "split", "instruction", "intent"])
    task = pc.if_else(pc.equal(pc.fill_null(rows["instruction"], ""), ""), rows["intent"], rows["instruction"])
    words, positives = [], []
    answers = "positive" if version.has("positive") else "passages"
    for part in version.parts(["query", answers]):
        words.append(query_hashes(part["query"]))
        positives.append(text_hashes(part[answers] if answers == "positive" else _firsts(part[answers])))
    hashes = [np.concatenate(words), text_hashes(task), np.concatenate(positives)]
    pair = sum(one * np.uint64(odd) for one, odd in zip(hashes, (1, 3, 5), strict=True))  # else two of them might swap
    trains = pc.fill_null(pc.equal(rows["split"], "train"), fill_value=False)
    return pa.table({"query_id": rows["query_id"], "task": task, "trains": trains, "words": hashes[0], "pair": pair})


def _firsts(lists: pa.ChunkedArray) -> pa.Array:
    """The first text of each list."""
    texts = one_array(lists)
    return texts.flatten().take(pa.array(offsets(pc.list_value_length(texts))[:-1])).cast(pa.string())


def _is_full(taken: int, most: int | None) -> bool:
    return most is not None and taken >= most


def _joined(rows: pa.Table, instructions: Mapping[str, str]) -> pa.Table:
    """The rows with their tasks in their queries' texts, and so in passages that have them as symmetric sets do."""
    columns = {name: rows[name].to_pylist() for name in ("query", "positive", "negatives", "instruction", "intent")}
    texts, positives, negatives = [], [], []
    for query, positive, others, own, intent in zip(*columns.values(), strict=True):
        task = own or instructions.get(intent, "")
        texts.append(f"{task} {query}" if task else query)
        positives.append(_told_plainly(positive, own))
        negatives.append([_told_plainly(other, own) for other in others])
    untold = [None] * len(rows)
    changed = {"query": texts, "positive": positives, "negatives": negatives, "instruction": untold}
    types = INSTRUCTED_TRIPLETS.arrow
    made = {name: pa.array(column, types.field(name).type) for name, column in changed.items()}
    return pa.table({name: made.get(name, rows[name]) for name in rows.column_names})


def _told_plainly(text: str, task: str | None) -> str:
    """A passage that begins as a query with this task would, with a blank behind the task and nothing else."""
    before = f"{task}{SEPARATOR}"
    return f"{task} {text.removeprefix(before)}" if task and text.startswith(before) else text


def _triplets(rows: pa.Table, relabelled: Version, params: UnifyParams) -> pa.Table:
    """The first passage of each query against its last ones, or against some of the rest."""
    passages, ids = rows["passages"].combine_chunks(), rows["passage_ids"].combine_chunks()
    lengths = pc.list_value_length(ids).to_numpy().astype(np.int64)
    first = np.cumsum(lengths) - lengths
    columns = (rows[name].to_pylist() for name in ("query_id", "likelihoods", "relevances"))
    below = [
        start + negative_places(name, _worse(scores, grades), params)
        for name, scores, grades, start in zip(*columns, first, strict=True)
    ]
    n_negatives = [*map(len, below)]
    taken = pa.array(np.concatenate([np.empty(0, np.int64), *below]))
    unscored = pa.nulls(len(taken), pa.float32())
    made = {name: rows[name] for name in ("query_id", "intent", "query", "instruction", "split")} | {
        "positive_id": ids.flatten().take(pa.array(first)),
        "positive": passages.flatten().take(pa.array(first)).cast(pa.string()),
        "positive_score": pa.nulls(rows.num_rows, pa.float32()),
        "negative_ids": list_array(n_negatives, ids.flatten().take(taken)),
        "negatives": list_array(n_negatives, passages.flatten().take(taken)),
        "negative_scores": list_array(n_negatives, unscored),
        "mining_model": pa.repeat(pa.scalar(relabelled.manifest.params.get("model", "")), rows.num_rows),
    }
    return pa.table(made)


def _worse(likelihoods: Sequence[float | None], relevances: Sequence[float]) -> np.ndarray:
    """Places of the passages behind the first one; without likelihoods, of those that are less relevant than it."""
    below = np.arange(1, len(relevances))
    return below if likelihoods[0] is not None else below[np.array(relevances)[1:] < relevances[0]]


def negative_places(query_id: str, below: np.ndarray, params: UnifyParams) -> np.ndarray:
    """Which of these places of a query's passages, best first, are its negatives."""
    if params.negatives == "last":
        return below[-params.n_negatives :]
    drawn = sorted(below, key=lambda place: unit_hash(query_id, int(place)))[: params.n_negatives]
    return np.array(sorted(drawn), np.int64)
