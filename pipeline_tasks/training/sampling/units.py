"""What a sampler chooses among: the sources of the rows, or clusters within each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline_tasks.training.data.rows import Rows
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.sampling.clusters import Clusters, clusters


@dataclass(frozen=True)
class Units:
    """Parts of the rows, each of which gives whole batches.

    Attributes:
        names: [m].
        sources: the source that each is of, [m].
        of_row: the unit of each row, [n].
        clusters: where they are; None where units are whole sources.
        key: stands for which row is in which cluster; empty where units are whole sources.
    """

    names: Sequence[str]
    sources: Sequence[str]
    of_row: np.ndarray
    clusters: Clusters | None = None
    key: str = ""

    def rows(self) -> list[np.ndarray]:
        """The rows of each, in order."""
        ends = np.bincount(self.of_row, minlength=len(self.names)).cumsum()
        return np.split(np.argsort(self.of_row, kind="stable"), ends[:-1])

    def shares(self, targets: Sequence[Rows]) -> np.ndarray | None:
        """Share of the targets' queries in each cluster, [m], every target counting alike; None where there is none."""
        if not self.clusters or not targets:
            return None
        return np.mean([self.clusters.shares(rows) for rows in targets], axis=0)


def units_of(data: Rows, params: TrainParams, vocabulary: int) -> Units:
    """Those of the rows; clusters are called ``<source>/cluster-<number>``.

    They are a function of the arguments alone, so that a run that was killed finds them again.

    Args:
        data: rows.
        params: whether there are clusters, and the seed.
        vocabulary: how many token ids there are.
    """
    if not params.clusters:
        return Units(data.sources, data.sources, data.source_of)
    found, sources, of_row = clusters(data, params.clusters, vocabulary, params.seed)
    numbers = [at - sources.index(source) for at, source in enumerate(sources)]
    names = ["/".join(filter(None, [source, f"cluster-{n}"])) for source, n in zip(sources, numbers, strict=True)]
    return Units(names, sources, of_row, found, hashlib.sha256(of_row.tobytes()).hexdigest())
