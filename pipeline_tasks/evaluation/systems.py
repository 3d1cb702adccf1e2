"""What can be evaluated, by name: BM25, a registered model, a model's folder, a trained version, a fusion of these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import digest, file_sha256
from pipeline_tasks.core.local_files import is_readable_file, named_path, where_to_name
from pipeline_tasks.core.runtime import versions_of
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import Version
from pipeline_tasks.encoders.devices import devices
from pipeline_tasks.models import use
from pipeline_tasks.models.start import Start
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.fusion import BM25, USUAL_K
from pipeline_tasks.retrieval.open_encoder import load_encoder, open_encoder

FUSED_DEPTH = 1000
"""Ranks of each member that a fusion reads, however deep its own ranking is looked at.

A sum hangs on how far its terms are read: were that as far as the deepest measure, ndcg@10 would move with map@1000.
At 1,000, as deep as runs of TREC usually are, that measure sees as much of a fusion as of its members. On two cores,
1,000 ranks of 500 queries in 100,000 passages take 0.3 s longer than 200, and their fusion 0.1 s.
"""
OF_QUERIES = "instructions"
"""What of a system has a say in vectors of queries and none in those of passages."""
Kind = Literal["bm25", "fusion", "version", "folder", "registered"]
_FUSION = re.compile(r"rrf\(([^()=]+?)(?:,\s*k=(\d+)\s*)?\)")
_WEIGHTS = ("*.safetensors", "*/*.safetensors", "*.onnx", "*.onnx.data", "*.onnx_data")
_READ = ("*.json", "*.txt", "*.model", "*/config.json", *_WEIGHTS)


@dataclass(frozen=True)
class Queries:
    """Queries and the corpus that they are asked of.

    Attributes:
        queries: [q] texts without instruction.
        intents: [q].
        passage_ids: [n], ascending.
        instructions: [q] of queries that have their own; None: none has.
    """

    queries: list[str]
    intents: list[str]
    passage_ids: list[str]
    instructions: list[str | None] | None = None

    def encoded_by(self, encoder: Encoder) -> np.ndarray:
        """Vectors of the queries [q, d]."""
        return encoder.encode_queries(self.queries, self.intents, self.instructions)

    def rank_bm25(self, blocks: Iterable[tuple[np.ndarray, list[str]]], depth: int) -> np.ndarray:
        """By BM25 (Lucene's variant); what shares no word with a query is not in its ranking.

        Args:
            blocks: positions of some passages and their texts, of which one block is held at a time.
            depth: passages of each query.

        Shapes: returns [q, depth] positions of passages, best first, -1 after the end of a short ranking.
        """
        from pipeline_tasks.retrieval.bm25 import Bm25, count_asked

        found = Bm25(count_asked(self.queries, blocks)).search(self.queries, depth)
        return np.where(found.scores > 0, found.indices, -1)


def encoder_of_start(start: Start, scratch: Path) -> Encoder:
    """The model that training starts from as it came, asked as the registry says, or a folder's own files."""
    return open_encoder(start.name) if start.folder is None else _load(start.files(scratch / "start"))


def encoder_of_version(version: Version, scratch: Path) -> Encoder:
    """A trained version, asked as its own files say."""
    manifest = version.manifest
    return _load(version.lay_out(scratch / manifest.dataset / manifest.id))


def encoder_of_folder(name: str) -> Encoder:
    """A model's folder, asked as its own files say."""
    return _load(_folder(name))


def _load(folder: Path) -> Encoder:
    return load_encoder(folder, settings().cache, settings().threads, devices())


def kind_of(name: str) -> Kind:
    """What the name of a system means; a version is ``model/<size>/<stage>``, with or without ``@ID``."""
    if name == BM25:
        return "bm25"
    if name.startswith("rrf("):
        return "fusion"
    if name.startswith("model/"):
        return "version"
    return "folder" if "/" in name or name.startswith(("~", ".")) else "registered"


def identity(name: str) -> dict[str, Any]:
    """What decides the rankings of a named system.

    Raises:
        InputError: it is unknown, a trained model, which is an input, or no folder of a model that this run may read.
    """
    match kind_of(name):
        case "bm25":
            return {"name": name, "libraries": versions_of("bm25s")}
        case "fusion":
            return {"name": name, "members": members(name)[0]}
        case "version":
            raise InputError(f"system {name!r} is a trained model: give it as the input `models`")
        case "registered":
            return use.identity(name)
    folder, files = _folder(name), _files(name)
    held = digest({path.relative_to(folder).as_posix(): file_sha256(path) for path in files})
    libraries = ("tokenizers", "onnxruntime") if folder / "model.onnx" in files else ("tokenizers",)
    return {"files": held, "libraries": versions_of(*libraries)}


def written(name: str) -> list[tuple[Any, ...]]:
    """Of each file of a model's folder its place, size and times: equal where nobody has written to any."""
    of = [(path, path.stat()) for path in _files(name)]
    return [(path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for path, stat in of]


def check_unchanged(name: str, was: dict[str, Any]) -> None:
    """See that a system still is what its rankings will be known by.

    Raises:
        InputError: it is not.
    """
    if identity(name) != was:
        raise InputError(f"{name!r} changed since this run began: start the run again")


def _folder(name: str) -> Path:
    folder = named_path(name)
    if folder is None or not is_readable_file(folder / "config.json"):
        raise InputError(f"system {name!r} is no model's folder: name one with a config.json{where_to_name()}")
    return folder


def _files(name: str) -> list[Path]:
    """Those of a model's folder that decide its vectors."""
    folder = _folder(name)
    return sorted({path for pattern in _READ for path in folder.glob(pattern) if is_readable_file(path)})


def members(name: str) -> tuple[list[str], int]:
    """The systems that a fusion is of, and its k: ``rrf(bm25,all-minilm-l6-v2)``, ``rrf(bm25,22m/corpus,k=40)``.

    Raises:
        InputError: it is no fusion, or of a system twice.
    """
    found = _FUSION.fullmatch(name)
    if not found:
        raise InputError(f"fusion {name!r} cannot be read: write it like rrf(bm25,all-minilm-l6-v2), or with ,k=40")
    of = [member.strip() for member in found[1].split(",")]
    _refuse_twice(name, of)
    return of, int(found[2] or USUAL_K)


def members_among(name: str, known: Mapping[str, str]) -> list[str]:
    """The systems that a fusion is of, as ``known`` calls them.

    Args:
        name: the fusion. A trained version in it goes by its name there, or is ``model/<size>/<stage>[@ID]``.
        known: system -> ``dataset@version`` of a trained one, else empty.

    Raises:
        InputError: ``name`` is no fusion, or of a system that is not one of the ``known``, or twice of one.
    """
    found = []
    for member in members(name)[0]:
        called = [
            one for one, ref in known.items() if member == one or (ref and member in (ref, ref.partition("@")[0]))
        ]
        if len(called) != 1:
            which, remedy = ("is several of", "name one") if called else ("is not among", "name it, too")
            asked = ", ".join(known) or "none"
            raise InputError(f"{name} fuses {member!r}, which {which} the systems asked for ({asked}): {remedy}")
        found += called
    _refuse_twice(name, found)
    return found


def _refuse_twice(name: str, of: list[str]) -> None:
    if twice := [member for at, member in enumerate(of) if member in of[:at]]:
        raise InputError(f"fusion {name!r} has {twice[0]!r} more than once: name it once")
