"""Which passages are nearly an earlier one: cosine above 0.9, found exactly; new passages against stored ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from pipeline_tasks.core.execution.earlier import earlier
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.partitions import PartitionedRun, pieces
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import From, StepParams, step, tuning
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, manifest_key, read_part
from pipeline_tasks.corpus.keep_earliest import UNKNOWN, keep_earliest
from pipeline_tasks.corpus.passage_blocks import Side, find_alike, gather, partition_of, settle_batch
from pipeline_tasks.datasets import PASSAGE_DUPLICATES, PASSAGE_EMBEDDINGS


class ClusterPassagesParams(StepParams):
    """When two passages are the same, and how much a process holds."""

    threshold: float = Field(0.9, gt=0, le=1, description="cosine above which two passages are near-duplicates")
    model: str = Field("all-minilm-l6-v2", description="encoder whose embeddings are compared")
    block_passages: int = tuning(100_000, ge=1, description="passages per block; a process holds two blocks at a time")


@step(
    reads={"embeddings": From(PASSAGE_EMBEDDINGS, "embeddings/{model}")},
    writes=PASSAGE_DUPLICATES,
    kind="partitioned",
    dataset="duplicates/passages",
    memory_gib=4,
)
def cluster_passages(inputs: Inputs, params: ClusterPassagesParams, run: PartitionedRun) -> Iterator[pa.Table]:
    """Name for every passage the earlier one that it repeats and that stays, else itself.

    All pairs are found, a block against a block, and the result depends on nothing but vectors, order and threshold.
    What the latest version says of parts that are still there is taken over, so a refresh costs (new passages) x (all
    passages); one part of output per part of input, so that what did not change is stored once.

    Source: DMRetriever, appendix A (5); there an approximate search.

    Raises:
        InputError: vectors of several widths, or one that is not finite or not of length 1.
    """
    embeddings = inputs["embeddings"]
    parts = [part["passage_id"].combine_chunks() for part in embeddings.parts(["passage_id"])]
    ids = pa.concat_arrays(parts) if parts else pa.array([], pa.string())
    known, cosines = _taken_over(run.store, params, embeddings, parts, ids)
    run.count("passages_taken_over", int((known != UNKNOWN).sum()))
    blocks = _Blocks(embeddings, [len(part) for part in parts], params, run)
    representatives, cosines = keep_earliest(blocks, known, cosines)
    at = 0
    for part in parts:
        here = slice(at, at := at + len(part))
        columns = [part, ids.take(pa.array(representatives[here])), pa.array(cosines[here].astype(np.float32))]
        yield pa.table(columns, schema=PASSAGE_DUPLICATES.arrow)


class _Blocks:
    """A :class:`~pipeline_tasks.corpus.keep_earliest.Comparison` of passages whose vectors nobody holds all.

    Args:
        embeddings: the vectors.
        lengths: live rows of each of their parts.
        params: of the step.
        run: computes the partitions.
    """

    def __init__(
        self, embeddings: Version, lengths: Sequence[int], params: ClusterPassagesParams, run: PartitionedRun
    ) -> None:
        self._run, self._most = run, params.block_passages
        self._blocks = [piece["embeddings"] for piece in pieces({"embeddings": embeddings}, params.block_passages)]
        ends = list(accumulate(lengths, initial=0))
        n_parts = accumulate((len(block.version.manifest.parts) for block in self._blocks), initial=0)
        self._first = np.array([ends[n] for n in n_parts])
        self._of_all = {"width": _width(embeddings, lengths), "threshold": params.threshold}

    def batches(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Whole blocks, or the rows of several that have few."""
        batch = rows[:0]
        with self._run.progress(len(rows), "passages") as meter:
            for some in self._by_block(rows).values():
                if len(batch) + len(some) > max(self._most, len(some)):
                    yield batch
                    meter.advance(len(batch))
                    batch = rows[:0]
                batch = np.concatenate([batch, some])
            yield batch
            meter.advance(len(batch))

    def decide(self, rows: np.ndarray, standing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Against every block of those that stand, then among themselves."""
        later = self._side(rows)
        compared = [
            partition_of(self._of_all, later=later, earlier=self._in_place(block, some))
            for block, some in self._by_block(standing[standing < rows[-1]]).items()
        ]
        alike = [part for (part,) in self._run.spread(find_alike, compared, lasting=False)]
        settled = [partition_of(self._of_all, {"alike": alike}, later=later)]
        ((found,),) = self._run.spread(settle_batch, settled, lasting=False)
        table = read_part(self._run.store, found)
        return table["representative"].to_numpy(), table["cosine"].to_numpy()

    def alike(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Blocks of rows against batches of columns."""
        found = [rows[:0]]
        for at in range(0, len(columns), self._most):
            batch = columns[at : at + self._most]
            later = self._by_block(rows[rows > batch[0]])
            if later:
                side = self._side(batch)
                compared = [
                    partition_of(self._of_all, later=self._in_place(block, some), earlier=side)
                    for block, some in later.items()
                ]
                parts = self._run.spread(find_alike, compared, lasting=False)
                found += [read_part(self._run.store, part)["row"].to_numpy() for (part,) in parts]
        return np.unique(np.concatenate(found))

    def _by_block(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """Those of each block that has any, by its number."""
        found = enumerate(np.split(rows, np.searchsorted(rows, self._first[1:-1])))
        return {block: some for block, some in found if some.size}

    def _side(self, rows: np.ndarray) -> Side:
        """Read where they are, if that is one block and most of it, else gathered first."""
        of_block = self._by_block(rows)
        (block, some), *more = of_block.items()
        if not more and 2 * len(some) > self._first[block + 1] - self._first[block]:
            return self._in_place(block, some)
        given = [partition_of(self._of_all, later=self._in_place(*one)) for one in of_block.items()]
        return Side(gathered=[part for (part,) in self._run.spread(gather, given, lasting=False)])

    def _in_place(self, block: int, rows: np.ndarray) -> Side:
        return Side.of_block(self._blocks[block], int(self._first[block]), rows)


def _width(embeddings: Version, lengths: Sequence[int]) -> int:
    """Of the first vector: all others have to be as wide."""
    first = next((index for index, n in enumerate(lengths) if n), None)
    if first is None:
        return 0
    return pc.list_value_length(embeddings.part(first, ["embedding"])["embedding"])[0].as_py() or 0


def _taken_over(
    store: Store, params: ClusterPassagesParams, now: Version, parts: list[pa.Array], ids: pa.Array
) -> tuple[np.ndarray, np.ndarray]:
    """What the latest version says of passages whose part is still there, as far as the passage it names is, too.

    Shapes: index of the representative or :data:`UNKNOWN`, and cosine to it; both [n].
    """
    representatives, cosines = np.full(len(ids), UNKNOWN, np.int64), np.zeros(len(ids))
    before = earlier(store, cluster_passages, params)
    read = Ref.parse(before.manifest.inputs["embeddings"][0]) if before else None
    if before is None or read is None or store.read(manifest_key(read)) is None:
        return representatives, cosines
    stored = {part.sha256: index for index, part in enumerate(Version.open(store, read).manifest.parts) if part.rows}
    places = [stored.get(part.sha256) for part in now.manifest.parts]
    shared = [place for place in places if place is not None]
    if shared != sorted(shared):
        return representatives, cosines
    in_shared = np.repeat([place is not None for place in places], [len(part) for part in parts])
    at = 0
    for place, part in zip(places, parts, strict=True):
        here = slice(at, at := at + len(part))
        if place is not None:
            said = before.part(place)
            row = pc.index_in(part, said["passage_id"].combine_chunks())
            index = pc.fill_null(pc.index_in(said["representative_id"].take(row), ids), UNKNOWN).to_numpy()
            representatives[here] = np.where((index >= 0) & in_shared[index], index, UNKNOWN)
            cosines[here] = pc.fill_null(said["cosine"].take(row), 0).to_numpy()
    return representatives, cosines
