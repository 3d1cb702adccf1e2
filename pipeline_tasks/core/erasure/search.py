"""Finding ids and texts of a document wherever a store may hold them: in parts, in answers, in any file of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any
from unicodedata import category

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline_tasks.core.erasure.rows import id_columns, id_lists, identifies, mentions
from pipeline_tasks.core.parts import BODY, damage_told
from pipeline_tasks.core.schema import REJECTS
from pipeline_tasks.core.store import Entry, Store
from pipeline_tasks.core.versions import REMOVED, bring_ahead

_TOKEN = re.compile(r"[0-9a-f]{16,64}")
_GOES_ON = r"(?!\.?[\w/%?=&#-])"
_LONG, _ANCHOR, _SHORT, _UNSPACED_SHORT = 40, 48, 12, 6
_UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Letters of scripts without blanks: Thai, Lao, Tibetan, Burmese, Khmer, kana, ideographs; each says what three do."""
_LABEL = re.compile(r"[\w ]{1,24}: *")


def mentioned(text: str, ids: Collection[str]) -> set[str]:
    """Those of ``ids`` that stand in a text as words; of an address, not where a longer one begins with it."""
    found = set(_TOKEN.findall(text)).intersection(ids)
    return found | {i for i in ids if "/" in i and re.search(re.escape(i) + _GOES_ON, text)}


def blotted(text: str, ids: Collection[str], by: str) -> str:
    """``text`` with ``by`` in place of each of ``ids``."""
    for i in sorted(mentioned(text, ids), key=len, reverse=True):
        text = re.sub(re.escape(i) + _GOES_ON, by, text)
    return text


def long_texts(table: pa.Table) -> set[str]:
    """The texts of these rows by which copies of them are known: no ids, not short, and none of a list."""
    single = table.select([f.name for f in table.schema if not pa.types.is_list(f.type)])
    return {text for values in _texts(single) for text in values.to_pylist() if text and _length(text) >= _LONG}


def short_texts(table: pa.Table) -> set[str]:
    """Other texts of these rows, of several words, on one line: by which an answer is known that was bought for one."""
    return {line for line in _lines(table) if _is_of_words(line)}


def brief_texts(table: pa.Table) -> set[str]:
    """The texts that are shorter still: only where one is a whole line of an answer it may be a quote."""
    return {line for line in _lines(table) if not _is_of_words(line)}


def _lines(table: pa.Table) -> set[str]:
    single = table.select([f.name for f in table.schema if not pa.types.is_list(f.type)])
    texts = {text for values in _texts(single) for text in values.to_pylist() if text and _length(text) < _LONG}
    return {_one_line(text) for text in texts} - {""}


def _is_of_words(line: str) -> bool:
    return (len(line) >= _SHORT and " " in line) or len(_UNSPACED.findall(line)) >= _UNSPACED_SHORT


def _length(text: str) -> int:
    """Characters, as many as the same would take in letters."""
    return len(text) + 2 * len(_UNSPACED.findall(text))


def _texts(table: pa.Table) -> Iterator[pa.ChunkedArray]:
    """Every column of texts, and what lists of texts hold."""
    for field in table.schema:
        column, kind = table[field.name], field.type
        if pa.types.is_list(kind):
            column, kind = pc.list_flatten(column), kind.value_type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_string(kind) and not identifies(field.name) and not field.name.endswith(("_ids", "response_id")):
            yield column.cast(pa.string())


def anchors(texts: Collection[str]) -> set[str]:
    """Pieces of texts, their spaces made one: what a prompt has of them, which may cut them."""
    found = set()
    for text in map(_one_line, texts):
        found |= {text[:_ANCHOR], text[len(text) // 2 :][:_ANCHOR]}
    return {piece for piece in found if _length(piece) >= _LONG // 2}


def quotes(data: bytes | None, pieces: Collection[str], lines: Collection[str] = ()) -> bool:
    """Whether a text in a file of JSON holds one of ``pieces``, see :func:`anchors`, or has one of ``lines`` as a line.

    Before a line a label may stand, as in ``Query: floods``.
    """
    try:
        texts = [*_strings(json.loads(data or b"null"))]
    except ValueError:
        texts = [(data or b"").decode("utf-8", "replace")]
    text = _one_line(" ".join(texts))
    if any(piece in text for piece in pieces):
        return True
    there = {_one_line(line) for text in texts for line in text.splitlines()} if lines else set()
    return not there.isdisjoint(lines) or not {_LABEL.sub("", line, count=1) for line in there}.isdisjoint(lines)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):  # prompts are JSON, too
            with suppress(ValueError, RecursionError):
                yield from _strings(json.loads(value))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return " ".join("".join(" " if category(c)[0] == "C" else c for c in line).split())  # as prompts have it


def parts_ahead(store: Store, entries: Iterable[Entry]) -> Iterator[str]:
    """The keys of all parts of rows among ``entries``, in the order of packs, in which small ones are brought."""
    parts = [entry for entry in entries if entry.key.endswith(".parquet")]
    if packs := store.packs:
        parts.sort(key=lambda entry: packs.order(entry.key))
    return bring_ahead(store, ((entry.key, entry) for entry in parts))


def holds(store: Store, key: str, ids: Collection[str]) -> bool:
    """Whether one of ``ids`` stands in a part: as an id or address, in a list, in a reject's detail; names a file.

    Raises:
        InputError: its bytes are damaged.
    """
    with damage_told(store, key):
        return _holds(pq.ParquetFile(store.local_path(key)), ids)


def _holds(file: pq.ParquetFile, ids: Collection[str]) -> bool:
    if _holds_file(file, ids):
        return True
    schema = file.schema_arrow
    singles = ["key"] if schema.names == REMOVED.names else id_columns(schema)
    lists = id_lists(schema)
    details = ["detail"] if schema.names == REJECTS.arrow.names else []
    table = file.read(columns=[*singles, *lists, *details])
    wanted = pa.array(sorted(ids), pa.string())
    return (
        any(pc.any(pc.is_in(table[name], wanted)).as_py() for name in singles)
        or any(mentions(name, table[name], ids) for name in lists)
        or any(mentioned(text or "", ids) for name in details for text in table[name].to_pylist())
    )


def _holds_file(file: pq.ParquetFile, ids: Collection[str]) -> bool:
    columns = [field.name for field in file.schema_arrow if field.type == BODY]
    batches = file.iter_batches(1, columns=columns) if columns else ()
    contents = (value.as_py() for batch in batches for column in batch.columns for value in column)
    return any(sha256(content).hexdigest() in ids for content in contents if content is not None)


def same_texts(store: Store, key: str, texts: Collection[str]) -> int:
    """How many texts of a part equal one of ``texts``; raises as :func:`holds` does."""
    wanted = pa.array(sorted(texts), pa.string())
    with damage_told(store, key):
        file = pq.ParquetFile(store.local_path(key))
        names = [f.name for f in file.schema_arrow if f.type != BODY]
        found = (pc.sum(pc.is_in(values, wanted)).as_py() for values in _texts(file.read(columns=names)))
        return sum(n or 0 for n in found)
