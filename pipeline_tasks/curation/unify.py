"""One training set in one form: a task, a query, its positive and its negatives, wherever rows are from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.arrays import list_array
from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, added, step
from pipeline_tasks.core.versions import Version
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


class _Drawn(NamedTuple):
    """Which queries take part: ``of`` each source those that find room, and the source that gives each of them."""

    of: list[set[str]]
    giver: dict[str, int]


@step(
    reads={"relabelled": RELABELLED, "builds": From(INSTRUCTED_TRIPLETS, "{item}", each="builds")},
    writes=INSTRUCTED_TRIPLETS,
    kind="reduce",
    dataset="mtt/fret",
    version="3",
)
def unify(inputs: Inputs, params: UnifyParams, run: Run) -> Iterator[pa.Table]:
    """Triplets of relabelled queries and of other builds, in one set that fine-tuning reads.

    A relabelled query has its first passage as the positive, and its last one as the negative. Where a judge gave
    grades or scores alone, a passage that it holds to be as good as the positive is no negative, and a query of which
    none is left is the reject ``no_negative``. A query of a build keeps
    its negatives, and is asked as its intent is where it has no task. ``per_source`` lets every source give as many
    queries, ``per_task`` every task (Gecko 3.3, 4.3), which is a query's instruction, else its intent; those that are
    not drawn are counted as ``not_sampled``. A query that an earlier source gives is the reject ``duplicate_id``.
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
        for part in _sampled_rows(version, source, drawn, run):
            rows = part if source else _triplets(part, relabelled, params, run)
            yield rows if instructions is None else _joined(rows, instructions)


def _sampled_rows(version: Version, source: int, drawn: _Drawn, run: Run) -> Iterator[pa.Table]:
    """The rows of a source that take part, part by part."""
    for part in version.parts():
        ids = part["query_id"].to_pylist()
        is_drawn = [name in drawn.of[source] for name in ids]
        is_first = [drawn.giver.get(name) == source for name in ids]
        for name in (n for n, draws, leads in zip(ids, is_drawn, is_first, strict=True) if draws and not leads):
            run.reject(name, "duplicate_id", str(version.manifest.ref))
        run.count("not_sampled", len(ids) - sum(is_drawn))
        yield part.filter(pc.and_(pa.array(is_drawn, pa.bool_()), pa.array(is_first, pa.bool_())))


def _drawn(versions: Sequence[Version], params: UnifyParams) -> _Drawn:
    """The queries that take part: of other splits than training's all, and of that one those that find room.

    They are asked in the order that their ids draw, whatever source they are of, and find room while their source and
    their task have some. One that another source gives already takes no room, neither of its source nor of its task;
    one that a source holds out is trained on from no other.
    """
    drawn, training = _Drawn([set() for _ in versions], {}), []
    for source, version in enumerate(versions):
        queries = version.table(["query_id", "split", "instruction", "intent"])
        for name, split, own, intent in zip(*(column.to_pylist() for column in queries.columns), strict=True):
            if split == "train":
                training.append((unit_hash("unify", name), source, name, own or intent))
            else:
                drawn.giver.setdefault(name, source)
                drawn.of[source].add(name)
    of_source, of_task = Counter[int](), Counter[str | None]()
    for _, source, name, task in sorted(training, key=itemgetter(0, 1)):
        if name not in drawn.giver:
            if _is_full(of_source[source], params.per_source) or _is_full(of_task[task], params.per_task):
                continue
            drawn.giver[name] = source
            of_source[source] += 1
            of_task[task] += 1
        drawn.of[source].add(name)
    return drawn


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


def _triplets(rows: pa.Table, relabelled: Version, params: UnifyParams, run: Run) -> pa.Table:
    """The first passage of each query against its last ones, or against some of the rest."""
    scores = (rows[name].to_pylist() for name in ("query_id", "likelihoods", "relevances"))
    worse: dict[str, np.ndarray] = {}
    for name, likelihoods, relevances in zip(*scores, strict=True):
        places = _worse(likelihoods, relevances)
        if len(places) or len(relevances) == 1:
            worse[name] = places
        else:
            run.reject(name, "no_negative", "no passage is worse than the positive")
    rows = rows.filter(pc.is_in(rows["query_id"], pa.array([*worse], pa.string())))
    passages, ids = rows["passages"].combine_chunks(), rows["passage_ids"].combine_chunks()
    lengths = pc.list_value_length(ids).to_numpy().astype(np.int64)
    first = np.cumsum(lengths) - lengths
    below = [
        start + negative_places(name, worse[name], params)
        for name, start in zip(rows["query_id"].to_pylist(), first, strict=True)
    ]
    n_negatives = [*map(len, below)]
    taken = pa.array(np.concatenate([np.empty(0, np.int64), *below]))
    unscored = pa.nulls(len(taken), pa.float32())
    columns = {name: rows[name] for name in ("query_id", "intent", "query", "instruction", "split")} | {
        "positive_id": ids.flatten().take(pa.array(first)),
        "positive": passages.flatten().take(pa.array(first)).cast(pa.string()),
        "positive_score": pa.nulls(rows.num_rows, pa.float32()),
        "negative_ids": list_array(n_negatives, ids.flatten().take(taken)),
        "negatives": list_array(n_negatives, passages.flatten().take(taken)),
        "negative_scores": list_array(n_negatives, unscored),
        "mining_model": pa.repeat(pa.scalar(relabelled.manifest.params.get("model", "")), rows.num_rows),
    }
    return pa.table(columns)


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
