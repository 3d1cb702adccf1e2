"""What reference models say of a block of queries, and what they agree on: partitions of ``mutual_agreement``.

Reading rankings is what costs, and does not depend on which passages there are. So what a block's models say is kept by
hashes of ids, and what these are is looked up after: a refresh, or another cap, reads no ranking of an old query again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import list_array
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.curation.agreement import NOBODY, TopPassages, Votes, agreed
from pipeline_tasks.curation.blocks import refuse_unknown
from pipeline_tasks.curation.id_table import HashTable, text_hashes
from pipeline_tasks.curation.passage_facts import Facts
from pipeline_tasks.curation.query_block import QueryBlock
from pipeline_tasks.curation.splits import SPLITS
from pipeline_tasks.curation.vote_columns import tops, vote_lists


def hear(given: Partition, run: Run) -> Iterator[pa.Table]:
    """A row for each seat of each query of a block: the model's top N, and what it says of the query's own positive.

    Raises:
        InputError: the rankings lack a query, or nobody judges an intent.
    """
    queries = QueryBlock.read(given)
    own_wanted = ~queries.is_of(given.values["filtered"]) | given.values["own_wanted"]
    rankings = {model: given.rows[model].version for model in queries.models}
    heard = queries.top_passages(rankings, given.values["top_n"], own_wanted)
    run.count("rankings_read", int(heard.seen.sum()))
    lengths, there = heard.n.ravel(), heard.there
    yield pa.table({
        "hashes": list_array(lengths, pa.array(heard.hashes[there])),
        "scores": list_array(lengths, pa.array(heard.scores[there])),
        "own_rank": heard.own_rank.ravel(), "own_score": heard.own_score.ravel(), "seen": heard.seen.ravel(),
    })  # fmt: skip


def _top_passages(table: pa.Table, shape: tuple[int, int], top_n: int) -> TopPassages:
    table = table.combine_chunks()
    hashes, scores = (table[name].combine_chunks() for name in ("hashes", "scores"))
    heard = TopPassages.empty(*shape, top_n)._replace(
        n=np.diff(np.asarray(hashes.offsets)).reshape(shape),
        own_rank=table["own_rank"].to_numpy().reshape(shape),
        own_score=table["own_score"].to_numpy().reshape(shape),
        seen=table["seen"].to_numpy().reshape(shape),
    )
    there = heard.there
    heard.hashes[there], heard.scores[there] = hashes.flatten().to_numpy(), scores.flatten().to_numpy()
    return heard


def vote(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Labels of those queries of a block that are kept, without texts; then what is to be counted of all of them.

    Rejects: all of ``mutual_agreement`` but ``over_cap``, each query for the first reason that holds.

    Raises:
        InputError: a ranking has a passage that is none here.
    """
    queries = QueryBlock.read(given)
    (heard_part,) = given.parts["heard"]
    heard = _top_passages(read_part(run.store, heard_part), queries.panel.shape, given.values["top_n"])
    hashes = heard.hashes[heard.there]
    table, numbers = HashTable.of(np.concatenate([queries.source, queries.own, hashes]))
    facts = Facts.look_up(run.store, given.parts["facts"], table)
    source, numbers = np.split(numbers, [len(queries.source)])
    own, votes = numbers[: len(queries.own)], heard.votes(numbers[len(queries.own) :])
    unknown = facts.splits[numbers] < 0
    if unknown.any():
        refuse_unknown(given, table.known[numbers[unknown][0]])
    strategy, filtered = given.values["strategy"], queries.is_of(given.values["filtered"])
    positive = np.where(filtered, agreed(votes.codes, votes.seen, own, strategy), own)
    kept = _refuse(queries, votes, source, positive, facts, strategy, run)
    rows = np.flatnonzero(kept)
    yield pa.table({
        "query": rows,
        "positive_id": facts.ids.take(pa.array(positive[rows])),
        "part": facts.parts[positive[rows]],
        "row": facts.rows[positive[rows]],
        "votes": vote_lists(queries, votes, rows, positive, own, facts.ids),
        "best_model": pa.array(queries.models, pa.string()).take(pa.array(queries.panel[rows, 0])),
    })  # fmt: skip
    yield pa.table({
        "origin": queries.origins.cast(pa.string()), "intent": queries.intents.cast(pa.string()),
        "hash": text_hashes(queries.ids), "own": positive == own, "kept": kept,
    })  # fmt: skip


def _refuse(
    queries: QueryBlock,
    votes: Votes,
    source: np.ndarray,
    positive: np.ndarray,
    facts: Facts,
    strategy: str,
    run: Run,
) -> np.ndarray:
    """Reject every query that is not kept, for the first reason that holds; whether each is kept, [q]."""
    kept = ~queries.held_out
    held_out = queries.ids.filter(pa.array(~kept))
    run.reject_all(held_out, "held_out", pa.repeat("its document is held out for evaluation", len(held_out)))
    _refuse_moved(queries, source, "other_side", kept, facts, run)
    lost = np.flatnonzero(kept & (positive == NOBODY))
    reason = "not_retrieved" if strategy == "consistency" else "no_agreement"
    run.reject_all(queries.ids.take(pa.array(lost)), reason, tops(queries, votes, lost, facts.ids))
    kept &= positive != NOBODY
    _refuse_moved(queries, positive, "positive_held_out", kept, facts, run)
    return kept


def _refuse_moved(
    queries: QueryBlock, passages: np.ndarray, reason: str, kept: np.ndarray, facts: Facts, run: Run
) -> None:
    """Reject those of the ``kept`` queries whose passage is known, and in another split than theirs."""
    splits = facts.splits[passages]
    moved = np.flatnonzero(kept & (splits >= 0) & (splits != queries.split))
    names = facts.ids.take(pa.array(passages[moved]))
    details = pc.binary_join_element_wise(names, pa.array(SPLITS).take(pa.array(splits[moved])), " is in split ")
    run.reject_all(queries.ids.take(pa.array(moved)), reason, details)
    kept[moved] = False
