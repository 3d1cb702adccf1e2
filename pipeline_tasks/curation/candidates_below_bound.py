"""First pass of ``mine_negatives``: of each ranking the first passages with a cosine below the bound.

A ranking has two hundred candidates of which a tenth or so is looked at: splits, known answers and duplicates are
looked up for these alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.arrays import list_array, one_array
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.partitions import Partition
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, read_part
from pipeline_tasks.curation.blocks import queries_of
from pipeline_tasks.curation.build_summary import tell_skipped
from pipeline_tasks.curation.id_table import IdTable, text_hashes
from pipeline_tasks.curation.negative_rules import SKIPS, Low, MiningQueries, Rules
from pipeline_tasks.curation.ranked_block import ranked_of
from pipeline_tasks.curation.same_texts import query_hashes
from pipeline_tasks.curation.splits import SPLITS, split_numbers

_RANKED = ["query_id", "passage_ids", "scores", "positive_score"]
_RANKED_BLOCK = 512
_TRAIN = SPLITS.index("train")
COLUMNS = ["query_id", "query", "intent", "positive_id", "split", "best_model"]


def find_low(given: Partition, run: Run) -> Iterator[pa.Table]:
    """For each query of a block its best candidates with low enough cosines, then what was passed over.

    No more than ``most`` for a training query, if that is not null: of others most candidates are of another split.

    Raises:
        InputError: a best model without rankings, or a query that its ranking lacks.
    """
    block = _Block.read(given, run.store)
    found = [block.candidates(given, model) for model in dict.fromkeys(block.rows["best_model"].to_pylist())]
    rows = np.concatenate([np.empty(0, np.int32), *(one.rows for one in found)])
    table = pa.table({
        "intent": block.rows["intent"],
        "split": block.asked.split,
        "text": block.texts,
        "positive": text_hashes(block.rows["positive_id"]),
        "positive_score": block.asked.positive_score,
        "candidates": _in_order(rows, [one.hashes for one in found], pa.list_(pa.uint64())),
        "scores": _in_order(rows, [one.scores for one in found], pa.list_(pa.float32())),
        "cut": block.cut,
    })  # fmt: skip
    run.count("rankings_read", len(rows))
    skipped = sum((one.skipped for one in found), np.zeros((len(block.intents), len(SKIPS)), np.int64))
    yield table
    yield tell_skipped(skipped, block.intents)


def _in_order(rows: np.ndarray, lists: list[pa.ListArray], kind: pa.DataType) -> pa.Array:
    """``lists`` by row; of a row that comes twice the last counts."""
    joined = pa.concat_arrays([pa.array([], kind), *lists])
    if np.array_equal(rows, np.arange(len(rows))):
        return joined
    order = np.empty(rows.max() + 1, np.int64)
    order[rows] = np.arange(len(rows))
    return joined.take(pa.array(order))


@dataclass(frozen=True)
class _Candidates:
    """Candidates from one model: row of each query, hashes of their ids and scores, and what was passed over."""

    rows: np.ndarray
    hashes: pa.ListArray
    scores: pa.ListArray
    skipped: np.ndarray


@dataclass(frozen=True)
class _Block:
    """A block of labelled queries.

    Attributes:
        rows: those columns of them that count here.
        table: their numbers by id.
        positives: numbers of their positives by id.
        asked: as the compiled rule reads them; ``group`` is not asked for.
        texts: hash of each query.
        own: whether the positive was written for the query.
        cut: whether there are more candidates than were taken; written to.
        intents: names.
    """

    rows: pa.Table
    table: IdTable
    positives: IdTable
    asked: MiningQueries
    texts: np.ndarray
    own: np.ndarray
    cut: np.ndarray
    intents: list[str]

    @classmethod
    def read(cls, given: Partition, store: Store) -> _Block:
        rows = queries_of(given, [*COLUMNS, "votes"])
        positives = IdTable.of(rows["positive_id"])
        intents = one_array(rows["intent"]).dictionary_encode()
        asked = MiningQueries(
            positives.numbers(rows["positive_id"]),
            positive_scores(rows),
            np.zeros(len(rows), np.int32),
            split_numbers(rows["split"], given.rows["queries"].version),
            intents.indices.to_numpy().astype(np.int8),
        )
        known = pa.concat_tables(read_part(store, part) for part in given.parts["known"])
        own = _own(rows, known.filter(known["query"].is_valid()))
        cut = np.zeros(len(rows), bool)
        names = intents.dictionary.to_pylist()
        table = IdTable.of(rows["query_id"])
        return cls(rows, table, positives, asked, query_hashes(rows["query"]), own, cut, names)

    def candidates(self, given: Partition, model: str) -> _Candidates:
        """Those of the queries whose best model it is.

        Raises:
            InputError: see :func:`find_low`.
        """
        have = sorted(set(given.rows) - {"queries"})
        if model not in have:
            raise InputError(f"no rankings of {[model]} among {have}; name each best_model in models=")
        version = given.rows[model].version
        mine = pc.equal(self.rows["best_model"], model).to_numpy()
        most = given.values["most"]
        least = np.iinfo(np.int32).max if most is None else most
        wanted = np.where(self.asked.split == _TRAIN, least, np.iinfo(np.int32).max).astype(np.int32)

        def of_part(number: int) -> list[_Candidates]:
            blocks = version.batches(_RANKED, _RANKED_BLOCK, [number])
            return [found for rows in blocks if (found := self._low(rows, version, mine, wanted, given))]

        with ThreadPoolExecutor(settings().threads) as pool:
            found = [one for some in pool.map(of_part, range(len(version.manifest.parts))) for one in some]
        rows = np.concatenate([np.empty(0, np.int32), *(one.rows for one in found)])
        lacking = np.setdiff1d(np.flatnonzero(mine), rows)
        if len(lacking):
            raise InputError(
                f"{version.manifest.ref} lacks query {self.rows['query_id'][int(lacking[0])]} ({len(lacking)} of a "
                "block): it is of other pairs or intents; embed all that it mines for, and run rank_passages again"
            )
        hashes, scores = (pa.concat_arrays([getattr(one, name) for one in found]) for name in ("hashes", "scores"))
        return _Candidates(rows, hashes, scores, np.sum([one.skipped for one in found], axis=0))

    def _low(
        self, block: pa.Table, version: Version, mine: np.ndarray, most: np.ndarray, given: Partition
    ) -> _Candidates | None:
        from pipeline_tasks.curation.negative_kernels import low_enough

        rows = self.table.numbers(block["query_id"])
        rows[(rows >= 0) & ~mine[rows]] = -1
        if (rows < 0).all():
            return None
        self._fill_in(rows, block["positive_score"].to_numpy())
        ranked = ranked_of(block, version)
        skipped = np.zeros((len(self.intents), len(SKIPS)), np.int64)
        hashes, scores = np.empty(len(ranked.scores), np.uint64), np.empty(len(ranked.scores), np.float32)
        low = Low(hashes, scores, np.zeros(len(rows), np.int32), self.cut, skipped)
        n = low_enough(rows, ranked, self.asked, self.positives, Rules.of(given.values), most, low)
        lists = [list_array(low.n[rows >= 0], pa.array(values[:n])) for values in (hashes, scores)]
        return _Candidates(rows[rows >= 0], lists[0], lists[1], skipped)

    def _fill_in(self, rows: np.ndarray, scores: np.ndarray) -> None:
        """Take the cosine of a generated positive from the ranking where no vote has it; it may be outside the top."""
        scored = self.asked.positive_score
        needed = (rows >= 0) & self.own[rows] & np.isnan(scored[rows])
        scored[rows[needed]] = scores[needed]


def _own(rows: pa.Table, written: pa.Table) -> np.ndarray:
    """Whether the positive is the one that was written for the query; the last counts where there are several."""
    hashes = text_hashes(rows["query_id"])
    order = np.argsort(hashes, kind="stable")
    at = np.searchsorted(hashes[order], written["query"].to_numpy())
    positive, found = text_hashes(rows["positive_id"]), np.zeros(len(rows), bool)
    found[order[at]] = positive[order[at]] == written["passage"].to_numpy()
    return found


def positive_scores(rows: pa.Table) -> np.ndarray:
    """The cosine that each query's best model gave its positive, float32; NaN without such a vote."""
    scores = np.full(rows.num_rows, np.nan, np.float32)
    votes = one_array(rows["votes"])
    owner = pc.list_parent_indices(votes).to_numpy()
    flat = votes.flatten()
    best = one_array(rows["best_model"]).take(pa.array(owner))
    mine = pc.equal(flat.field("model"), best).fill_null(False).to_numpy(zero_copy_only=False)
    found = flat.field("positive_score").to_numpy(zero_copy_only=False).astype(np.float32)
    scores[owner[mine]] = found[mine]
    return scores
