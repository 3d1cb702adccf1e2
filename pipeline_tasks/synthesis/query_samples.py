"""What stays of queries that are not alike, by origin and by intent: partitions of ``combine_pairs``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from math import floor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import lowest
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import read_part
from pipeline_tasks.synthesis.query_words import queries_of, written
from pipeline_tasks.texts.near_groups import places_in

_LIMITS = pa.schema([("of", pa.string()), ("name", pa.string()), ("most", pa.int64()), ("beyond", pa.uint64())])
_COUNTS = pa.schema([("origin", pa.string()), ("intent", pa.string()), ("read", pa.int64()), ("kept", pa.int64())])


def refuse_alike(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The rows of a shard whose queries repeat none, and what limits go by.

    Rejects: ``duplicate_query``, ``near_query``. Rows: of the shard. Parts: ``turns``, hashes of all rows, ``moved``,
    places of what is refused already, ``repeated`` and ``near``, tables that name a place and the id of the first.
    Values: ``first``, the place of the first row.
    """
    queries = queries_of(given, ["query_id", "query", "intent", "origin", "split"])
    stays = ~np.isin(np.arange(len(queries)) + given.values["first"], places_in(given.parts["moved"], run))
    for name, reason in (("repeated", "duplicate_query"), ("near", "near_query")):
        found = pa.concat_tables(read_part(run.store, part, ["place", "original"]) for part in given.parts[name])
        rows = found["place"].to_numpy() - given.values["first"]
        found = found.filter(pa.array(stays[rows]))
        rows = rows[stays[rows]]
        refused = queries.select(["query_id", "query"]).take(pa.array(rows))
        details = pc.binary_join_element_wise("of ", found["original"], ": ", refused["query"], "")
        run.reject_all(refused["query_id"].combine_chunks(), reason, details.combine_chunks())
        stays[rows] = False
    (turns,) = (read_part(run.store, part) for part in given.parts["turns"])
    fields = {"row": np.arange(len(queries)), "turn": turns["turn"], "is_written": written(queries)}
    fields |= {name: queries[name] for name in ("origin", "intent")}
    yield pa.table(fields).filter(pa.array(stays))


def find_limits(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Where an origin or an intent has too many: how many stay, and the lowest hash of an id that is one too many.

    It holds a shard's queries, and eight bytes for each that stays. Parts: ``distinct``, a table of
    :func:`refuse_alike` of every shard. Values: ``caps``, ``per_intent`` and ``balance``, the parameters.
    """

    def distinct() -> Iterator[pa.Table]:
        for part in given.parts["distinct"]:
            yield read_part(run.store, part, ["origin", "intent", "turn", "is_written"])

    def levelled() -> Iterator[pa.Table]:
        for table in distinct():
            yield table.filter(pc.and_(table["is_written"], pa.array(~beyond(table, "origin", limits))))

    caps, per_intent, balance = (given.values[name] for name in ("caps", "per_intent", "balance"))
    limits = _limits("origin", caps, distinct())
    if per_intent or balance:
        n = Counter[str]()
        for table in levelled():
            n.update({found["values"]: found["counts"] for found in pc.value_counts(table["intent"]).to_pylist()})
        rarest = min(n.values(), default=0)
        most = floor(min(per_intent or rarest * balance, rarest * balance if balance else per_intent))
        limits = pa.concat_tables([limits, _limits("intent", dict.fromkeys(n, most), levelled())])
    yield limits


def _limits(of: str, most: dict[str, int], tables: Iterator[pa.Table]) -> pa.Table:
    """What is beyond the ``most`` lowest hashes of those ``of`` a name, where that is anything."""
    found = {name: np.empty(0, np.uint64) for name in sorted(most)}
    for table in tables if found else ():
        for name, hashes in found.items():
            mine = table["turn"].filter(pc.equal(table[of], name)).to_numpy()
            found[name] = lowest(np.concatenate([hashes, mine]), most[name] + 1)
    over = {name: hashes.max() for name, hashes in found.items() if len(hashes) > most[name]}
    mosts = [most[name] for name in over]
    return pa.table({"of": [of] * len(over), "name": list(over), "most": mosts, "beyond": list(over.values())}, _LIMITS)


def beyond(queries: pa.Table, of: str, limits: pa.Table) -> np.ndarray:
    """Which queries have a hash beyond the limit of their origin, or of their intent."""
    found = np.zeros(len(queries), bool)
    for limit in limits.filter(pc.equal(limits["of"], of)).to_pylist():
        mine = pc.equal(queries[of], limit["name"]).to_numpy()
        found |= mine & (queries["turn"].to_numpy() >= np.uint64(limit["beyond"]))
    return found


def refuse_beyond(given: Partition, run: Run) -> Iterator[pa.Table]:
    """How many pairs of each origin and intent a shard has, and how many of them stay.

    Rejects: ``over_cap``, ``over_intent``. Parts: ``distinct`` of the shard, and ``limits``.
    """
    (distinct,), (limits,) = (map(partial(read_part, run.store), given.parts[name]) for name in ("distinct", "limits"))
    queries = queries_of(given, ["query_id", "origin", "intent"])
    stays = np.ones(len(distinct), bool)
    for of, reason in (("origin", "over_cap"), ("intent", "over_intent")):
        over = stays & beyond(distinct, of, limits)
        over &= distinct["is_written"].to_numpy() if of == "intent" else over
        refused = distinct.filter(pa.array(over))
        most = {limit["name"]: limit["most"] for limit in limits.filter(pc.equal(limits["of"], of)).to_pylist()}
        details = [f"beyond {most[name]} pairs of its {of}, by the hash of its id" for name in refused[of].to_pylist()]
        run.reject_all(
            queries["query_id"].take(refused["row"]).combine_chunks(), reason, pa.array(details, pa.string())
        )
        stays &= ~over
    kept = np.zeros(len(queries), bool)
    kept[distinct["row"].to_numpy()[stays]] = True
    groups = queries.append_column("kept", pa.array(kept)).group_by(["origin", "intent"], use_threads=False)
    found = groups.aggregate([([], "count_all"), ("kept", "sum")])
    columns = [found["origin"], found["intent"], found["count_all"], found["kept_sum"].cast(pa.int64())]
    yield pa.Table.from_arrays(columns, schema=_COUNTS)
