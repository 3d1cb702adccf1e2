"""Queries with the same words, wherever they are: partitions of ``combine_pairs``, in which equal hashes meet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.partitions import Partition, dealt, ranges_of
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.sql import script
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.texts.near_groups import places_in, repeated

REPEATED = pa.schema([("place", pa.int64()), ("original", pa.string())])


def queries_of(given: Partition, columns: list[str]) -> pa.Table:
    """The pairs of a shard in their order, each column in one piece; what is not known is an empty text."""
    found = [table for name, rows in given.rows.items() if name != "passages" for table in rows.tables(columns)]
    tables = pa.concat_tables([PAIRS.table().select(columns), *found])
    return pa.table({name: one_array(pc.fill_null(tables[name], "")) for name in columns})


def written(queries: pa.Table) -> pa.Array:
    """Which of them an LLM wrote to train on; one without a split is to train on."""
    trained = pc.or_(pc.equal(queries["split"], "train"), pc.equal(queries["split"], ""))
    return one_array(pc.and_(pc.equal(queries["origin"], "dm"), trained))


def deal_queries(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The hashes of a shard's queries by which samples are drawn, in their order.

    Then the queries, a table for each of ``groups`` ranges of their words, and one for each range of their ids. Values:
    ``groups``.
    """
    import duckdb

    queries = queries_of(given, ["query_id", "query", "intent", "origin", "split"])
    groups = given.values["groups"]
    with duckdb.connect() as connection:
        connection.register("pairs", queries)
        hashes = connection.sql(script("combine_pairs.sql")).to_arrow_table().combine_chunks()
    words, turns = (hashes[name].to_numpy() for name in ("words", "turn"))
    yield hashes.select(["turn"])
    fields = {"row": np.arange(len(queries)), "words": words}
    for name in ("query_id", "origin", "split"):
        fields[name] = queries[name]
    yield from dealt(pa.table(fields), ranges_of(words, groups), groups)
    yield from dealt(queries.select(["query_id"]), ranges_of(turns, groups), groups)


def find_twice(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Ids that two pairs have, of one range of ids. Parts: ``ids``, a table of every shard."""
    ids = pa.concat_tables(read_part(run.store, part) for part in given.parts["ids"])
    times = ids.group_by("query_id").aggregate([([], "count_all")])
    yield times.filter(pc.greater(times["count_all"], 1)).select(["query_id"]).sort_by("query_id")


def find_repeated(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Queries with the words of an earlier one, and the id of the first: rows of :data:`REPEATED`, a table a shard.

    A set may answer one query with several passages of one side of the split; a query that an LLM wrote, or that a
    passage has in its own words, stays once. Parts: ``words`` of one range, a table of every shard, and ``moved``, the
    places of queries that count as not there. Values: ``places``, where the shards begin and the last one ends.
    """
    shards, bounds = [read_part(run.store, part) for part in given.parts["words"]], given.values["places"]
    queries = pa.concat_tables(shards)
    places = np.concatenate([table["row"].to_numpy() + first for table, first in zip(shards, bounds, strict=False)])
    stays = ~np.isin(places, places_in(given.parts["moved"], run))
    queries, places = queries.filter(pa.array(stays)).combine_chunks(), places[stays]
    later, first = repeated(queries["words"].to_numpy(), np.arange(len(queries)))
    names = (pc.dictionary_encode(queries[name]).combine_chunks().indices for name in ("origin", "split"))
    origins, splits = (indices.to_numpy() for indices in names)
    made = pc.or_(pc.equal(queries["origin"], "dm"), pc.starts_with(queries["origin"], "extracted/")).to_numpy()
    refused = made[later] | (origins[later] != origins[first]) | (splits[later] != splits[first])
    later, first = later[refused], first[refused]
    order = np.argsort(later)
    later, first = later[order], first[order]
    found = pa.Table.from_arrays(
        [pa.array(places[later]), queries["query_id"].combine_chunks().take(pa.array(first))], schema=REPEATED
    )
    ends = np.searchsorted(places[later], bounds).tolist()
    for begin, end in zip(ends, ends[1:], strict=False):
        yield found.slice(begin, end - begin)
