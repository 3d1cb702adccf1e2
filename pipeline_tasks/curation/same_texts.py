"""Which passages are known to answer a query: what its own pair, label and those of other queries of its text name.

Queries meet by the hash of their text: every block of labels and every piece of the pairs gives a table for each hash,
and what has one hash is joined, so that a text that many queries share costs each block of them one list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import one_array
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun, pieces
from pipeline_tasks.core.removals import RemovedRows
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.curation.blocks import Block, queries_of
from pipeline_tasks.curation.id_table import text_hashes
from pipeline_tasks.retrieval.shards import hashes_of

_NAMED = pa.schema([(name, pa.uint64()) for name in ("text", "query", "positive", "source")])
_KNOWN = pa.schema([(name, pa.uint64()) for name in ("text", "query", "passage")])


def known_answers(blocks: Sequence[Block], pairs: Version, most_rows: int, run: PartitionedRun) -> list[Sequence[Part]]:
    """For each block of labels the tables, one for each hash, of what is known to answer its queries.

    A row is a passage for a text, all by hashes; where ``query`` is not null the passage is the positive that was
    written for that query. Pairs that were refused answer, too: of equal queries about two passages one stays.
    """
    shards = pieces({"pairs": replace(pairs, known=RemovedRows(len(pairs.manifest.parts), dict))}, most_rows)
    hashes = {"hashes": hashes_of([*blocks, *shards])}
    labelled = run.spread(
        name_labelled, [Partition({"queries": block.rows}, values=block.values | hashes) for block in blocks]
    )
    asked = run.spread(name_pairs, [Partition(shard, values=hashes) for shard in shards])
    both = zip(zip(*labelled, strict=True), zip(*asked, strict=True), strict=True)
    joined = run.spread(join_texts, [Partition(parts={"labelled": ours, "pairs": theirs}) for ours, theirs in both])
    return list(zip(*joined, strict=True))


def query_hashes(queries: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """64 bits per query: queries of the same words have equal ones, whatever their case, blanks and Unicode form.

    Shapes:
        returns [n], uint64.
    """
    lower = pc.utf8_lower(pc.utf8_normalize(one_array(queries), "NFC"))
    return text_hashes(pc.utf8_trim_whitespace(pc.replace_substring_regex(lower, r"[\s\v]+", " ")))


def name_labelled(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Texts of a block of labels with the passages that answer them, a table for each hash."""
    rows = queries_of(given, ["query_id", "query", "positive_id", "source_passage_id"])
    yield from _hash_tables(rows, "source_passage_id", given.values["hashes"])


def name_pairs(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Texts of some pairs with the passages that answer them, a table for each hash."""
    columns = ["query_id", "query", "positive_id", "passage_id"]
    tables = list(given.rows["pairs"].tables(columns))
    rows = pa.concat_tables(tables) if tables else pa.table({name: pa.array([], pa.string()) for name in columns})
    yield from _hash_tables(rows, "passage_id", given.values["hashes"])


def _hash_tables(rows: pa.Table, source: str, hashes: int) -> Iterator[pa.Table]:
    columns = [query_hashes(rows["query"]), *(text_hashes(rows[name]) for name in ("query_id", "positive_id", source))]
    table, texts = pa.table(columns, schema=_NAMED), columns[0]
    for one in range(hashes):
        yield table.filter(pa.array(texts % np.uint64(hashes) == one)) if hashes > 1 else table


def join_texts(given: Partition, run: Run) -> Iterator[pa.Table]:
    """For each block of labels what answers those of its texts that have one hash."""
    labelled, pairs = ([read_part(run.store, part) for part in given.parts[name]] for name in ("labelled", "pairs"))
    named = pa.concat_tables([*pairs, *labelled]).combine_chunks()
    n_pairs = sum(map(len, pairs))
    texts = named["text"].to_numpy()
    order = np.argsort(texts, kind="stable")
    texts = texts[order]
    for block in labelled:
        asked = np.unique(block["text"].to_numpy())
        starts, ends = (np.searchsorted(texts, asked, side=side) for side in ("left", "right"))
        n = ends - starts
        places = np.arange(n.sum()) + np.repeat(starts - np.cumsum(n) + n, n)
        rows = order[places]
        own = rows[(rows < n_pairs) & np.isin(named["query"].to_numpy()[rows], block["query"].to_numpy())]
        yield pa.concat_tables([_answers(named.take(pa.array(rows))), _own(named.take(pa.array(own)))])


def _answers(named: pa.Table) -> pa.Table:
    both = [pa.table({"text": named["text"], "passage": named[name]}) for name in ("positive", "source")]
    found = pa.concat_tables(both)
    return pa.table([found["text"], pa.nulls(len(found), pa.uint64()), found["passage"]], schema=_KNOWN)


def _own(named: pa.Table) -> pa.Table:
    return pa.table([named["text"], named["query"], named["positive"]], schema=_KNOWN)
