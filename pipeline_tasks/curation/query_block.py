"""Queries of a block and their reference models, as arrays; and what these models say, read from their rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.agreement import NOBODY, TopPassages
from pipeline_tasks.curation.blocks import queries_of
from pipeline_tasks.curation.id_table import IdTable, text_hashes
from pipeline_tasks.curation.ranked_block import ranked_of
from pipeline_tasks.curation.splits import SPLITS, split_numbers
from pipeline_tasks.models.registry import ANY
from pipeline_tasks.retrieval.reference_models import models_of

_BLOCK = 4096
_RANKED = ["query_id", "passage_ids", "scores", "positive_score"]
_TEST = SPLITS.index("test")


@dataclass(frozen=True)
class QueryBlock:
    """Queries row by row as in a block of the pairs.

    Attributes:
        ids: their ids.
        own: hash of the id of the positive that came with each, uint64.
        source: hash of the id of the passage that each was written for, uint64.
        split: place in :data:`SPLITS`, int8.
        intents, origins: dictionary columns.
        models: names.
        panel: places in ``models`` of each query's reference models, best first, [q, m], int32; :data:`NOBODY` where
            there are fewer, and for every query that is held out.
    """

    ids: pa.Array
    own: np.ndarray
    source: np.ndarray
    split: np.ndarray
    intents: pa.DictionaryArray
    origins: pa.DictionaryArray
    models: list[str]
    panel: np.ndarray

    @classmethod
    def read(cls, given: Partition) -> QueryBlock:
        """The queries of a partition, each with the models of its intent.

        Raises:
            InputError: nobody judges an intent.
        """
        rows = queries_of(given, ["query_id", "positive_id", "passage_id", "split", "intent", "origin"])
        ids, intents, origins = (rows[name].combine_chunks() for name in ("query_id", "intent", "origin"))
        intents, origins = (column.fill_null("").dictionary_encode() for column in (intents, origins))
        judges = given.values["judges"]
        models = models_of(judges)
        panels = np.full((len(intents.dictionary), max(map(len, judges.values()))), NOBODY, np.int32)
        for number, intent in enumerate(intents.dictionary.to_pylist()):
            panel = judges.get(intent, judges.get(ANY))
            if not panel:
                raise InputError(f"no model judges queries of intent {intent!r}; judges= knows {sorted(judges)}")
            panels[number, : len(panel)] = [models.index(model) for model in panel]
        split = split_numbers(rows["split"], given.rows["queries"].version)
        seats = panels[intents.indices.to_numpy()]
        seats[split == _TEST] = NOBODY
        own, source = (text_hashes(rows[name]) for name in ("positive_id", "passage_id"))
        return cls(ids, own, source, split, intents, origins, models, seats)

    @property
    def held_out(self) -> np.ndarray:
        """Whether a query's document is kept for evaluation, [q]."""
        return self.split == _TEST

    def is_of(self, origins: Sequence[str]) -> np.ndarray:
        """Whether each query is of one of these origins, [q]."""
        return np.isin(self.origins.dictionary.to_pylist(), origins)[self.origins.indices.to_numpy()]

    def top_passages(self, rankings: Mapping[str, Version], top_n: int, own_wanted: np.ndarray) -> TopPassages:
        """What all models say; the rank of a query's own positive where ``own_wanted`` [q].

        Raises:
            InputError: rankings lack a query.
        """
        n_queries, n_seats = self.panel.shape
        heard = TopPassages.empty(n_queries, n_seats, top_n)
        table = IdTable.of(self.ids)
        for number, model in enumerate(self.models):
            here = self.panel == number
            seats = np.where(here.any(axis=1), here.argmax(axis=1), NOBODY).astype(np.int32)
            self._hear(rankings[model], table, seats, own_wanted, heard)
            lacking = np.flatnonzero((here & ~heard.seen).any(axis=1))
            if len(lacking):
                raise InputError(
                    f"{rankings[model].manifest.ref} lacks query {self.ids[int(lacking[0])]} ({len(lacking)} of a "
                    "block): it is of other pairs, or of other intents; embed all that it judges, and rank them again"
                )
        return heard

    def _hear(
        self, version: Version, table: IdTable, seats: np.ndarray, wanted: np.ndarray, heard: TopPassages
    ) -> None:
        from pipeline_tasks.curation.agreement_kernels import read_votes

        def read_part(number: int) -> None:
            for block in version.batches(_RANKED, _BLOCK, [number]):
                ranked = ranked_of(block, version)
                known = block["positive_score"].to_numpy().astype(np.float32)
                read_votes(table.numbers(block["query_id"]), seats, ranked, known, self.own, wanted, heard)

        with ThreadPoolExecutor(settings().threads) as pool:
            list(pool.map(read_part, range(len(version.manifest.parts))))
