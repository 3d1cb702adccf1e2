"""Stored answers that an erasure takes, and no others: the rest was paid for, and is not bought again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from pipeline_tasks.core import bought_vectors
from pipeline_tasks.core.erasure.search import anchors, mentioned, quotes
from pipeline_tasks.core.memo import RECEIPTS
from pipeline_tasks.core.pins import Deletion
from pipeline_tasks.core.store import Store


def of_rows(
    store: Store, touched: Iterable[str], named: Collection[str], texts: Collection[str], ids: set[str]
) -> list[str]:
    """Keys of answers that lost rows name or that quote their texts, and of vectors bought for their parts.

    What is stored of vectors has no text that tells whose they are.

    Args:
        store: where they are.
        touched: sha256 of the parts that lose rows.
        named: answers that these rows name.
        texts: long ones of these rows.
        ids: everything that goes, by id or address.
    """
    keys, pieces, named = list(store.keys("responses")), anchors(texts), set(named)
    vectors = {_id(key) for key in keys if key.endswith(".f32")}
    for _, data in store.read_all(_receipts(touched)):
        named |= vectors.intersection(json.loads(data)["responses"] if data else ())
    gone = []
    for key, data in store.read_all(key for key in keys if key.endswith(".json")):
        if _id(key) in named or quotes(data, pieces) or mentioned((data or b"").decode("utf-8", "replace"), ids):
            gone.append(key)
    return gone


def forget(store: Store, gone: Collection[str], touched: Iterable[str], right: Deletion) -> None:
    """Delete these answers, their vectors, and what says that parts were paid with them."""
    right.delete_all(bought_vectors.forget(store, set(map(_id, gone))))
    right.delete_all([*gone, *(f"{key[:-5]}.f32" for key in gone), *_receipts(touched)])


def _receipts(touched: Iterable[str]) -> list[str]:
    return [f"{RECEIPTS}/{sha256}.json" for sha256 in touched]


def _id(key: str) -> str:
    return PurePosixPath(key).stem
