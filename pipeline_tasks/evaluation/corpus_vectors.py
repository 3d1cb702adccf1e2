"""Vectors of an evaluation's corpus by one model, a block of passages at a time, where later evaluations find them.

Another judged set over the same passages, or a question more, then costs queries alone, and a kill one block. Blocks
are of whole parts where these are small, so that a refresh of the corpus leaves most of them as they are: those before
the first part that goes. No version names them: ``foundry gc --memo`` drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import inverse
from pipeline_tasks.core.manifest import Part, Ref
from pipeline_tasks.core.partitions import Partition, PartitionedRun, pieces
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import lists, matrix
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.evaluation import systems
from pipeline_tasks.evaluation.evaluation_params import EvaluationParams
from pipeline_tasks.retrieval.embed_passages import counting_costs
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.served_encoder import open_or_ask

BLOCK = 4096
"""Passages that a kill may cost; as many as ``foundry ask`` encodes at once."""


@dataclass
class SystemEncoder:
    """The model of a system, opened when something is first encoded by it and held for all that is.

    Attributes:
        kind: of the system.
        name: the system's.
        decided_by: what else decides its vectors.
        params: of the evaluation.
        run: of the step.
    """

    kind: str
    name: str
    decided_by: dict[str, Any]
    params: EvaluationParams
    run: PartitionedRun
    _seen: object = field(default=None, init=False)

    @cached_property
    def _encoder(self) -> Encoder:
        """Asked as the registry says, or its own files."""
        run = self.run
        if self.kind == "registered":
            return open_or_ask(self.name, self.decided_by["precision"], run.store, self.params.terms(run))
        if self.kind == "folder":
            return systems.encoder_of_folder(self.name)
        if self.kind == "start":
            return systems.encoder_of_start(self.params.start, run.scratch)
        return systems.encoder_of_version(Version.open(run.store, Ref.parse(self.decided_by["version"])), run.scratch)

    def encode(self, run: Run, n_texts: int, by: Callable[[Encoder], np.ndarray]) -> np.ndarray:
        """The vectors of so many texts that ``by`` has of the encoder, counted in ``run``.

        Raises:
            InputError: as of the encoder; or a folder is no longer what its vectors will be known by.
        """
        with counting_costs(run, self._encoder, n_texts):
            vectors = by(self._encoder)
        if self.kind == "folder" and (now := systems.written(self.name)) != self._seen:
            systems.check_unchanged(self.name, self.decided_by)
            self._seen = now
        return vectors


def encode_corpus(model: SystemEncoder, passages: Version, run: PartitionedRun) -> list[Part]:
    """The vectors of all passages, in the order of the corpus; those that were there count as ``vectors_read``."""
    known: dict[str, Any] = {"kind": model.kind, "name": model.name if model.kind == "registered" else ""}
    known["decided_by"] = {of: value for of, value in model.decided_by.items() if of != systems.OF_QUERIES}
    blocks = [
        Partition(piece, values=known | {"first": first, "past": min(first + BLOCK, len(piece["passages"]))},
                  beside={"model": model})
        for piece in pieces({"passages": passages}, BLOCK)
        for first in range(0, len(piece["passages"]), BLOCK)
    ]  # fmt: skip
    before = run.counters["texts_encoded"]
    found = [part for (part,) in run.spread(encode_block, blocks)]
    run.count("vectors_read", sum(part.rows for part in found) - run.counters["texts_encoded"] + before)
    return found


def encode_block(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Vectors of some of the passages, in their order."""
    first, past, model = given.values["first"], given.values["past"], given.beside["model"]
    rows = pa.concat_tables(given.rows["passages"].tables(["text"])).slice(first, past - first)
    texts = rows["text"].to_pylist()
    yield pa.table({"embedding": lists(model.encode(run, len(texts), lambda encoder: encoder.encode_passages(texts)))})


def by_rising_id(store: Store, vectors: Sequence[Part], passages: Version, width: int) -> np.ndarray:
    """What :func:`encode_corpus` gave, in the order of the passages' ids.

    Shapes: returns [n, width].
    """
    place, at = _places(passages), 0
    found = np.empty((len(place), width), np.float32)
    for part in vectors:
        found[place[at : at + part.rows]] = matrix(read_part(store, part)["embedding"])
        at += part.rows
    return found


def texts_by_place(passages: Version) -> Iterator[tuple[np.ndarray, list[str]]]:
    """The texts of a corpus, a block at a time, with the place of each among all by rising id."""
    place, at = _places(passages), 0
    for block in passages.batches(["text"], BLOCK):
        yield place[at : at + block.num_rows], block["text"].to_pylist()
        at += block.num_rows


def _places(passages: Version) -> np.ndarray:
    """Of each passage, in the order of the corpus, its place among all by rising id."""
    ids = passages.table(["passage_id"])
    return inverse(pc.sort_indices(ids, [("passage_id", "ascending")]).to_numpy())
