"""Near-duplicate passages: cosine above 0.9 to an earlier passage, found with FAISS; the earliest stays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.core.vectors import matrix
from pipeline_tasks.datasets import PASSAGE_EMBEDDINGS, PASSAGES


class NearDuplicatePassagesParams(StepParams):
    """When two passages are the same."""

    threshold: float = Field(0.9, gt=0, le=1, description="cosine above which two passages are the same")
    model: str = Field("all-minilm-l6-v2", description="encoder whose embeddings are compared")


@step(
    reads={"chunks": From(PASSAGES, "chunks"), "embeddings": From(PASSAGE_EMBEDDINGS, "embeddings/{model}")},
    writes=PASSAGES,
    kind="reduce",
    keeps=("chunks",),
)
def near_duplicate_passages(inputs: Inputs, params: NearDuplicatePassagesParams, run: Run) -> None:
    """Remove every passage that is nearly an earlier one; rejects ``near_duplicate_passage`` name it and the cosine.

    Source: DMRetriever, appendix A (5).

    Raises:
        InputError: the embeddings are of other passages.
    """
    passages = inputs["chunks"].table(["passage_id"])["passage_id"].to_pylist()
    embedded = inputs["embeddings"].table(["passage_id", "embedding"])
    if embedded["passage_id"].to_pylist() != passages:
        raise InputError("the embeddings are not of these passages; run embed_passages --input passages=chunks again")
    for index, original, cosine in duplicates(matrix(embedded["embedding"]), params.threshold, run):
        detail = f"of {passages[original]}, cosine {cosine:.3f}"
        run.reject(passages[index], "near_duplicate_passage", detail)


def duplicates(vectors: np.ndarray, threshold: float, run: Run) -> Iterator[tuple[int, int, float]]:
    """Rows that repeat an earlier row that stayed: (index, index of the earlier one, cosine).

    Shapes: vectors [n, d] float32, L2-normalised.
    """
    import faiss

    faiss.omp_set_num_threads(settings().threads)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    removed: set[int] = set()
    block = 1024
    with run.progress(len(vectors), "passages") as meter:
        for first in range(0, len(vectors), block):
            limits, cosines, neighbours = index.range_search(vectors[first : first + block], threshold)
            for row in range(first, min(first + block, len(vectors))):
                at = slice(limits[row - first], limits[row - first + 1])
                pairs = zip(cosines[at].tolist(), neighbours[at].tolist(), strict=True)
                alike = [(cosine, -other) for cosine, other in pairs if other < row and other not in removed]
                run.count("candidates", len(alike))
                if alike:
                    cosine, other = max(alike)
                    removed.add(row)
                    yield row, -other, cosine
                meter.advance()
