"""Queries and the models that judge them, as arrays; and what these models say, read from their rankings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.versions import Version
from pipeline_tasks.curation.agreement import NOBODY, Votes
from pipeline_tasks.curation.id_table import IdTable, strings
from pipeline_tasks.curation.negative_rules import Ranked
from pipeline_tasks.curation.passage_index import PassageIndex
from pipeline_tasks.curation.splits import SPLITS, split_numbers
from pipeline_tasks.models.registry import ANY

_BLOCK = 4096
_RANKED = ["query_id", "passage_ids", "scores", "positive_score"]
_TEST = SPLITS.index("test")


@dataclass(frozen=True)
class Judged:
    """Queries row by row as in the pairs.

    Attributes:
        ids, table: their ids, and numbers by id.
        own: number of the positive that came with each, int32.
        split: place in :data:`SPLITS`, int8.
        intents, origins: dictionary columns.
        models: names.
        judges: places in ``models`` of those that judge each query, best first, [q, m], int32; :data:`NOBODY` where
            there are fewer, and for every query that is held out.
    """

    ids: pa.Array
    table: IdTable
    own: np.ndarray
    split: np.ndarray
    intents: pa.DictionaryArray
    origins: pa.DictionaryArray
    models: list[str]
    judges: np.ndarray

    @classmethod
    def read(cls, pairs: Version, index: PassageIndex, judges: dict[str, tuple[str, ...]]) -> Judged:
        """All pairs, each with the models of its intent.

        Raises:
            InputError: nobody judges an intent.
        """
        rows = pairs.table(["query_id", "positive_id", "split", "intent", "origin"])
        ids, intents, origins = (rows[name].combine_chunks() for name in ("query_id", "intent", "origin"))
        intents, origins = (column.fill_null("").dictionary_encode() for column in (intents, origins))
        models = list(dict.fromkeys(model for panel in judges.values() for model in panel))
        panels = np.full((len(intents.dictionary), max(map(len, judges.values()))), NOBODY, np.int32)
        for number, intent in enumerate(intents.dictionary.to_pylist()):
            panel = judges.get(intent, judges.get(ANY))
            if not panel:
                raise InputError(f"no model judges queries of intent {intent!r}; judges= knows {sorted(judges)}")
            panels[number, : len(panel)] = [models.index(model) for model in panel]
        split = split_numbers(rows["split"], pairs)
        seats = panels[intents.indices.to_numpy()]
        seats[split == _TEST] = NOBODY
        own = index.table.numbers(rows["positive_id"])
        return cls(ids, IdTable.of(ids), own, split, intents, origins, models, seats)

    @property
    def held_out(self) -> np.ndarray:
        """Whether a query's document is kept for evaluation, [q]."""
        return self.split == _TEST

    def votes(
        self, rankings: dict[str, Version], index: PassageIndex, top_n: int, own_wanted: np.ndarray, run: Run
    ) -> Votes:
        """What all models say; the rank of a query's own positive where ``own_wanted`` [q].

        Raises:
            InputError: rankings lack a model or a query, or rank a passage that is not in ``index``.
        """
        missing = sorted(set(self.models) - set(rankings))
        if missing:
            raise InputError(f"no rankings of {missing} among {sorted(rankings)}; give rankings/{missing[0]} as well")
        n_queries, n_seats = self.judges.shape
        votes = Votes.empty(n_queries, n_seats, top_n)
        own = np.where(own_wanted, self.own, NOBODY)
        with run.progress(sum(rankings[model].manifest.rows for model in self.models), "rankings") as meter:
            for number, model in enumerate(self.models):
                here = self.judges == number
                seats = np.where(here.any(axis=1), here.argmax(axis=1), NOBODY).astype(np.int32)
                _read(rankings[model], self.table, seats, own, index, votes)
                lacking = np.flatnonzero((here & ~votes.seen).any(axis=1))
                if len(lacking):
                    raise InputError(
                        f"{rankings[model].manifest.ref} lacks query {self.ids[int(lacking[0])]} "
                        f"({len(lacking)} in all): it is of other pairs; rank them again"
                    )
                meter.advance(rankings[model].manifest.rows)
        return votes


def _read(
    version: Version, table: IdTable, seats: np.ndarray, own: np.ndarray, index: PassageIndex, votes: Votes
) -> None:
    from pipeline_tasks.curation.agreement_kernels import read_votes

    def read_part(number: int) -> None:
        for block in version.batches(_RANKED, _BLOCK, [number]):
            ids, scores = (block[name].combine_chunks() for name in ("passage_ids", "scores"))
            starts = np.asarray(ids.offsets, np.int64)
            ranked = Ranked(strings(ids.flatten()), scores.flatten().to_numpy(), starts - starts[0])
            known = block["positive_score"].to_numpy().astype(np.float32)
            unknown = read_votes(table.numbers(block["query_id"]), seats, ranked, known, own, index.table, votes)
            if unknown >= 0:
                name = ids.flatten()[unknown]
                raise InputError(f"{version.manifest.ref} ranks {name}, which is no passage here; rank again")

    with ThreadPoolExecutor(settings().threads) as pool:
        list(pool.map(read_part, range(len(version.manifest.parts))))
