"""Index from a text to the paid embeddings answer that has its vector.

Answers are of batches of texts, and another step may want some of them in other batches. Embeddings are the business of
``retrieval``; the index is core's since an erasure, which is, has to forget entries of it.

Each of its files is written once, under the hash of its content; it holds digests and no text. Many small ones are put
together: the new file is there before they go, so that one who reads meanwhile finds every entry. The index is a
shortcut: where an entry is lost, or its answer is, the text is asked for again. Only steps use it, beside which nothing
is erased.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.protocol import WHOLE_BYTES

log = logging.getLogger(__name__)
PREFIX = "responses/texts"
_DIGEST_BYTES = 16
_MANY = 64
"""Small files from which on they are put together: so many requests hardly delay a process that begins."""
_LOOKS = 4
_SCHEMA = pa.schema(
    [
        pa.field("text", pa.binary(_DIGEST_BYTES)),
        pa.field("answer", pa.dictionary(pa.int32(), pa.string())),
        pa.field("row", pa.int32()),
        pa.field("rows", pa.int32()),
    ]
)


@dataclass(frozen=True)
class Place:
    """Where some of the texts that were looked up lie in one answer.

    Attributes:
        answer_id: of the answer.
        n_rows: vectors that it has.
        rows: theirs, [m].
        texts: their positions among those that were looked up, [m].
    """

    answer_id: str
    n_rows: int
    rows: np.ndarray
    texts: np.ndarray


class TextIndex:
    """The index of one model's answers, as it is whenever something is looked up; each file is read once.

    Args:
        store: where the answers are.
        model: name of the model, as its requests have it.
    """

    def __init__(self, store: Store, model: str) -> None:
        self._store, self._name = store, short_id(model)
        self._files: dict[str, pa.Table] = {}

    @property
    def _folder(self) -> str:
        return f"{PREFIX}/{self._name}"

    def find(self, texts: Sequence[str]) -> list[Place]:
        """Where each of ``texts`` (distinct) lies that is known, by answer; one that was bought twice lies in two."""
        if len(self._look()) >= _MANY:
            self._put_together()
        index = _joined([*self._files.values()])
        place = pc.index_in(index["text"], value_set=_digests(texts))
        known = index.append_column("at", place).filter(pc.is_valid(place))
        answers, of = np.unique(known["answer"].cast(pa.string()).to_numpy(), return_inverse=True)
        at, rows, n_rows = (known[name].to_numpy() for name in ("at", "row", "rows"))
        _, first = np.unique(of * len(texts) + at, return_index=True)  # two files may tell of one answer
        own = np.split(first, np.bincount(of[first], minlength=len(answers)).cumsum()[:-1])
        return [Place(answers[i], int(n_rows[lie[0]]), rows[lie], at[lie]) for i, lie in enumerate(own) if len(lie)]

    def _look(self) -> dict[str, pa.Table]:
        """Read the files that are new, and drop what was read of those that are gone; the small ones."""
        for _ in range(_LOOKS):
            there = {entry.key: entry.size_bytes for entry in self._store.entries(self._folder)}
            new = dict(self._store.read_all(key for key in there if key not in self._files))
            read = {key: _read(self._store, key, data) for key, data in new.items() if data is not None}
            files = self._files | {key: rows for key, rows in read.items() if rows.num_rows}
            self._files = files = {key: files[key] for key in there if key in files}
            if None not in new.values():  # else another process has just put it together with others
                break
        return {key: rows for key, rows in files.items() if there[key] <= WHOLE_BYTES}

    def _put_together(self) -> None:
        with self._store.alone(f"texts-{self._name}"):
            small = self._look()
            if len(small) >= _MANY:  # else another process was first
                key = _write(self._store, self._folder, _joined([*small.values()]))
                self._store.delete_all(small.keys() - {key})

    def add(self, answers: Mapping[str, Sequence[str]]) -> None:
        """Note the texts of answers, in the order of their vectors."""
        if not answers:
            return
        tables = [
            pa.table(
                [
                    _digests(texts),
                    pa.repeat(answer_id, len(texts)).dictionary_encode(),
                    np.arange(len(texts), dtype=np.int32),
                    np.full(len(texts), len(texts), np.int32),
                ],
                schema=_SCHEMA,
            )
            for answer_id, texts in sorted(answers.items())
        ]
        rows = _joined(tables)
        self._files = self._files | {_write(self._store, self._folder, rows): rows}


@lru_cache(maxsize=2)
def text_index(store: Store, model: str) -> TextIndex:
    """The index of a model's answers; a process keeps the last two."""
    return TextIndex(store, model)


def forget(store: Store, answers: Collection[str]) -> list[str]:
    """Write anew the files that name one of these answers, without it; the keys of the old ones, to be deleted."""
    old = []
    for key, data in store.read_all(store.keys(PREFIX)):
        rows = _read(store, key, data or b"")
        named = rows["answer"].cast(pa.string())
        stay = pc.invert(pc.is_in(named, pa.array(list(answers), pa.string())))
        if not pc.all(stay).as_py():
            old.append(key)
            if pc.any(stay).as_py():  # encoded anew: a dictionary keeps what no row has any more
                left, coded = rows.filter(stay), named.filter(stay).dictionary_encode()
                _write(store, key.rpartition("/")[0], left.set_column(1, _SCHEMA.field("answer"), coded))
    return old


def _digests(texts: Sequence[str]) -> pa.Array:
    return pa.array([sha256(text.encode()).digest()[:_DIGEST_BYTES] for text in texts], _SCHEMA.field("text").type)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([_SCHEMA.empty_table(), *tables])


def _write(store: Store, folder: str, rows: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_table(rows.unify_dictionaries().combine_chunks())
    data = sink.getvalue().to_pybytes()
    key = f"{folder}/{sha256(data).hexdigest()}.arrow"
    store.create(key, data)
    return key


def _read(store: Store, key: str, data: bytes) -> pa.Table:
    try:
        return pa.ipc.open_file(data).read_all().cast(_SCHEMA)
    except (pa.ArrowInvalid, ValueError):
        log.warning("%s is no index, as after a power cut: its texts are found by their groups alone", key)
        store.delete(key)
        return _SCHEMA.empty_table()
