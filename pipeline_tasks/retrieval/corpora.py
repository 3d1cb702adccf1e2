"""What a query is ranked against: the passages of its own corpus alone.

The domain's corpus is the PDF passages and the positives of pairs that were made of them. Pairs from elsewhere bring
their own: the positives of their origin (DMRetriever 3.4.3, "the associated passage corpus").
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import inverse

DOMAIN = ""


def by_corpus(pairs: pa.Table) -> Iterator[tuple[str, np.ndarray]]:
    """The corpora of these pairs, and which rows are of each: :data:`DOMAIN`, or an origin's name."""
    ours = pc.not_equal(pairs["passage_id"].fill_null(""), "")
    names = pc.if_else(ours, DOMAIN, pairs["origin"].fill_null(DOMAIN)).combine_chunks().dictionary_encode()
    for number, name in enumerate(names.dictionary.to_pylist()):
        yield name, np.flatnonzero(names.indices.to_numpy() == number)


def distinct_keys(parts: list[pa.Array]) -> tuple[pa.Array, np.ndarray]:
    """Distinct ids in rising order, and each row's place among them; -1 where an id was seen before."""
    if not any(map(len, parts)):
        return pa.array([], pa.string()), np.empty(0, np.int32)
    coded = pa.chunked_array(parts).dictionary_encode().unify_dictionaries()
    distinct = coded.chunk(0).dictionary
    order = pc.sort_indices(distinct)
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in coded.chunks])
    keys = np.full(len(codes), -1, np.int32)
    first = np.unique(codes, return_index=True)[1]
    keys[first] = inverse(order.to_numpy())[codes[first]]
    return distinct.take(order), keys
