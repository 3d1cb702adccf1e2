"""What can be asked: whatever can be evaluated, by the same names, with its vectors of one corpus at hand."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from pipeline_tasks.ask import vectors
from pipeline_tasks.ask.corpus import Corpus
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.runtime import versions_of
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.versions import Version
from pipeline_tasks.evaluation.systems import (
    BM25,
    FUSED_DEPTH,
    encoder_of_folder,
    encoder_of_version,
    identity,
    kind_of,
    members,
)
from pipeline_tasks.retrieval.bm25 import Bm25
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.fusion import fuse
from pipeline_tasks.retrieval.open_encoder import open_encoder
from pipeline_tasks.retrieval.search import Shard, search


class System(ABC):
    """Something that ranks the passages of one corpus.

    Attributes:
        name: as people write it.
        ref: the version that it is; None for what is no version.
        unit: what its scores are.
    """

    unit = "cosine"

    def __init__(self, name: str, corpus: Corpus, ref: Ref | None = None) -> None:
        self.name, self.corpus, self.ref = name, corpus, ref

    def search(self, queries: Sequence[str], intents: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``k`` best passages of each query, or all where there are fewer; equal scores by passage id.

        Shapes: returns places in the corpus [q, k] and scores [q, k]; -1 and 0 after the end of what was found: BM25
            finds nothing that shares no word with the query.
        """
        return self._search(queries, intents, min(k, self.corpus.rows.num_rows))

    @abstractmethod
    def _search(self, queries: Sequence[str], intents: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]: ...

    @abstractmethod
    def likeness(self, queries: Sequence[str], intents: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Scores of texts that are no passages of the corpus.

        Shapes: returns [q, t].
        """


class Bm25System(System):
    """BM25."""

    unit = "BM25"

    def __init__(self, corpus: Corpus) -> None:
        super().__init__(BM25, corpus)

    @cached_property
    def _index(self) -> Bm25:
        return Bm25(self.corpus.texts)

    def _search(self, queries: Sequence[str], intents: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        found = self._index.search(queries, k)
        return np.where(found.scores > 0, found.indices, -1), found.scores

    def likeness(self, queries: Sequence[str], intents: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """See :meth:`System.likeness`."""
        index = Bm25(texts)
        return np.stack([index.scores(query) for query in queries])


class EncoderSystem(System):
    """An encoder and the vectors of the corpus that are its own."""

    def __init__(self, name: str, corpus: Corpus, encoder: Encoder, shards: list[Shard], ref: Ref | None = None):
        super().__init__(name, corpus, ref)
        self._encoder, self._shards = encoder, shards

    def _search(self, queries: Sequence[str], intents: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        return search(self._encoder.encode_queries(queries, intents), self._shards, k)

    def likeness(self, queries: Sequence[str], intents: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """See :meth:`System.likeness`."""
        with meter(f"sentences by {self.name}", len(texts), "sentences") as progress_bar:
            of_texts = self._encoder.encode_passages(texts, progress=progress_bar.advance)
        return self._encoder.encode_queries(queries, intents) @ of_texts.T


class FusionSystem(System):
    """Reciprocal rank fusion of other systems; the last of them compares sentences."""

    unit = "RRF"

    def __init__(self, name: str, corpus: Corpus) -> None:
        super().__init__(name, corpus)
        of, self._k = members(name)
        self._members = {member: open_system(member, corpus) for member in of}

    def _search(self, queries: Sequence[str], intents: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        found = [member.search(queries, intents, FUSED_DEPTH)[0] for member in self._members.values()]
        return fuse(found, k, self._k)

    def likeness(self, queries: Sequence[str], intents: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """See :meth:`System.likeness`."""
        return list(self._members.values())[-1].likeness(queries, intents, texts)


def open_system(name: str, corpus: Corpus) -> System:
    """The system called ``name``, ready to be asked; vectors that are stored are not made again.

    Args:
        name: ``bm25``, a model of the registry, ``model/<size>/<stage>`` with or without ``@VERSION``, the path of a
            model's folder, or ``rrf(…)`` of some of these.
        corpus: what it is asked about.

    Raises:
        InputError: there is no such system, or it cannot run here.
    """
    match kind_of(name):
        case "bm25":
            return Bm25System(corpus)
        case "fusion":
            return FusionSystem(name, corpus)
        case "version":
            return _of_version(Ref.parse(name), corpus)
        case "folder":
            encoder = encoder_of_folder(name)
        case "registered":
            made = vectors.stored(corpus, name)
            if made is not None:
                encoder = open_encoder(name, made.params.get("precision", "float32"))
                return EncoderSystem(name, corpus, encoder, vectors.stored_shards(corpus, made))
            encoder = open_encoder(name)
    return EncoderSystem(name, corpus, encoder, vectors.made_shards(corpus, encoder, name, identity(name)))


def _of_version(ref: Ref, corpus: Corpus) -> System:
    version = Version.open(corpus.store, ref)
    manifest = version.manifest
    if manifest.rows_schema != FILES:
        raise InputError(f"{manifest.ref} holds {manifest.rows_schema!r}: name a model (`foundry ls model`)")
    with tempfile.TemporaryDirectory() as scratch:
        encoder = encoder_of_version(version, Path(scratch))
    of = [str(manifest.ref), manifest.content, versions_of("tokenizers")]
    name = str(ref).removesuffix("@latest")
    return EncoderSystem(name, corpus, encoder, vectors.made_shards(corpus, encoder, name, of), manifest.ref)
