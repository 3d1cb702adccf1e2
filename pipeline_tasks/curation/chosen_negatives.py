"""Negatives of a block of queries from its candidates, and triplets from them: partitions of ``mine_negatives``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.arrays import list_array, one_array
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.curation.blocks import queries_of, refuse_unknown
from pipeline_tasks.curation.build_summary import tell_chosen
from pipeline_tasks.curation.candidates_below_bound import COLUMNS
from pipeline_tasks.curation.id_table import HashTable
from pipeline_tasks.curation.negative_rules import Candidates, Chosen, KnownPositives, MiningQueries, Rules, groups
from pipeline_tasks.curation.passage_facts import Facts, read_texts
from pipeline_tasks.curation.text_parts import own_rows, queries_of_blocks


def choose_low(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Negatives and where their texts lie, the parts that hold these, a summary, and the queries that lack candidates.

    Where there are any of the last, nothing else is: the block is to be done again with all candidates.

    Raises:
        InputError: a positive or a candidate that is no passage.
    """
    (low,) = given.parts["low"]
    wanted = read_part(run.store, low).combine_chunks()
    lists = one_array(wanted["candidates"])
    n, hashes = len(wanted), lists.flatten().to_numpy()
    answers = pa.concat_tables(read_part(run.store, part) for part in given.parts["known"])
    named = [wanted["positive"].to_numpy(), hashes, answers["passage"].to_numpy()]
    table, numbers = HashTable.of(np.concatenate(named))
    codes, answering = np.split(numbers, [n + len(hashes)])
    facts = Facts.look_up(run.store, given.parts["facts"], table)
    if (facts.splits[codes[:n]] < 0).any():
        row = int(np.argmax(facts.splits[codes[:n]] < 0))
        name = queries_of(given, ["positive_id"])["positive_id"][row]
        ref = given.rows["queries"].version.manifest.ref
        raise InputError(f"{ref}: positive {name} is no passage here; label the queries again")
    intents = one_array(wanted["intent"]).dictionary_encode()
    names = intents.dictionary.to_pylist()
    texts, group = np.unique(wanted["text"].to_numpy(), return_inverse=True)
    positive, scores = codes[:n], wanted["positive_score"].to_numpy()
    asked = MiningQueries(
        positive, scores, group.astype(np.int32), wanted["split"].to_numpy(), intents.indices.to_numpy()
    )
    chosen = Chosen.empty(n, given.values["n_negatives"], len(names))
    candidates = Candidates(codes[n:], one_array(wanted["scores"]).flatten().to_numpy(), np.asarray(lists.offsets))
    _choose(candidates, asked, _known_positives(answers, answering, texts, facts), chosen, hashes, given)
    again = (chosen.n < given.values["n_negatives"]) & wanted["cut"].to_numpy(zero_copy_only=False)
    if again.any():
        chosen = chosen._replace(n=np.zeros_like(chosen.n))
    else:
        _reject(given, scores, chosen.n, run)
    found = _table(chosen, asked, facts)
    yield found
    yield pa.table({"part": np.unique(np.concatenate([found["part"].to_numpy(), _flat(found, "parts")]))})
    yield tell_chosen(chosen, scores, asked.intent, names)
    yield pa.table({"row": np.flatnonzero(again)})


def _known_positives(answers: pa.Table, codes: np.ndarray, texts: np.ndarray, facts: Facts) -> KnownPositives:
    """What answers each text of ``texts``; ``codes`` are the answers' numbers, of which some are no passages here."""
    owner = np.searchsorted(texts, answers["text"].to_numpy())
    starts, there = groups(owner, [np.where(facts.splits[codes] < 0, -1, codes)], len(texts))
    return KnownPositives(facts.texts, facts.splits, starts, there)


def _choose(
    candidates: Candidates,
    asked: MiningQueries,
    known: KnownPositives,
    chosen: Chosen,
    hashes: np.ndarray,
    given: Partition,
) -> None:
    from pipeline_tasks.curation.negative_kernels import choose

    unknown = choose(candidates, asked, known, chosen)
    if unknown >= 0:
        refuse_unknown(given, hashes[unknown])


def _reject(given: Partition, scores: np.ndarray, n: np.ndarray, run: Run) -> None:
    rows = np.flatnonzero(n == 0)
    names = queries_of(given, ["query_id"])["query_id"].take(pa.array(rows)).to_pylist() if len(rows) else []
    for name, score in zip(names, scores[rows], strict=True):
        if np.isnan(score):
            detail = "its positive has no vote of its best model, and is not in that model's ranking"
            run.reject(name, "no_positive_score", detail)
        else:
            rules = ", ".join(f"{rule}={given.values[rule]}" for rule in Rules._fields)
            run.reject(name, "no_negative", f"no passage may be one: {rules}, and its positive has {score:.3f}")


def _table(chosen: Chosen, asked: MiningQueries, facts: Facts) -> pa.Table:
    """The rows of queries with negatives: ids, cosines, and where positive and negatives lie."""
    rows = np.flatnonzero(chosen.n > 0)
    n = chosen.n[rows]
    there = np.arange(chosen.codes.shape[1]) < n[:, None]
    codes, positive = chosen.codes[rows][there], asked.positive[rows]
    return pa.table({
        "query": rows,
        "positive_score": asked.positive_score[rows],
        "part": facts.parts[positive],
        "row": facts.rows[positive],
        "negative_ids": list_array(n, facts.ids.take(pa.array(codes))),
        "negative_scores": list_array(n, pa.array(chosen.scores[rows][there])),
        "parts": list_array(n, pa.array(facts.parts[codes])),
        "rows": list_array(n, pa.array(facts.rows[codes])),
    })  # fmt: skip


def write_triplets(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Triplets of some neighbouring queries that have negatives, with the texts of all passages."""
    chosen = [read_part(run.store, part) for part in given.parts["chosen"]]
    blocks = queries_of_blocks(given, COLUMNS)
    names = [rows.take(found["query"]) for rows, found in zip(blocks, chosen, strict=True)]
    yield _triplets(own_rows(given, chosen), own_rows(given, names), given, run)


def _triplets(chosen: pa.Table, names: pa.Table, given: Partition, run: Run) -> pa.Table:
    ids, scores = (one_array(chosen[name]) for name in ("negative_ids", "negative_scores"))
    ends = pa.array(np.asarray(ids.offsets) - ids.offsets[0].as_py())
    (places, positives), (codes, negatives) = read_texts(
        run.store,
        {name: given.parts[name] for name in ("passages", "pairs")},
        (chosen["part"].to_numpy(), chosen["row"].to_numpy()),
        (_flat(chosen, "parts"), _flat(chosen, "rows")),
    )
    run.count("texts_read", len(positives) + len(negatives))
    return pa.table(
        {
            **{name: names[name] for name in ("query_id", "intent", "query", "positive_id")},
            "positive": positives.take(pa.array(places)),
            "positive_score": chosen["positive_score"],
            "negative_ids": pa.ListArray.from_arrays(ends, ids.flatten()),
            "negatives": pa.ListArray.from_arrays(ends, pa.DictionaryArray.from_arrays(pa.array(codes), negatives)),
            "negative_scores": pa.ListArray.from_arrays(ends, scores.flatten()),
            "split": names["split"],
            "mining_model": names["best_model"],
        }
    )


def _flat(table: pa.Table, column: str) -> np.ndarray:
    return one_array(table[column]).flatten().to_numpy()
