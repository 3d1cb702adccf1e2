"""FRet, second half, by a model that reads query and passage together: which nearest passage is a query's best."""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.curation.compared_passages import READS, Compared
from pipeline_tasks.curation.passage_scores import ranks_of
from pipeline_tasks.datasets import RELABELLED
from pipeline_tasks.encoders.devices import devices
from pipeline_tasks.models.start import Start, reranker_of
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.retrieval.cross_encoder import CrossEncoder, load_cross_encoder


class RerankPassagesParams(StepParams):
    """Whose nearest passages, and which model compares them."""

    model: str = Field(REFERENCE_MODELS[0], description="encoder whose nearest passages are scored")
    reranker: str = Field(
        "ms-marco-minilm-l12", description="cross-encoder: a reranker of `foundry models`, or its folder's path"
    )
    margin: float = Field(
        0.25, ge=0, description="logit margin by which a passage must beat the one that the query was written for"
    )
    max_length: int = Field(512, ge=16, description="longest input of the reranker, in tokens: query and passage")

    @cached_property
    def start(self) -> Start:
        """The reranker, as it was when it was first asked for."""
        return reranker_of(self.reranker)

    def identity(self) -> dict[str, Any]:
        """The parameters, and what the reranker's weights are wherever they lie."""
        return super().identity() | {"reranker": self.start.identity()}

    def licences(self) -> dict[str, str]:
        """Those of the reranker's weights."""
        return dict(self.start.licences)


@step(
    reads=READS,
    writes=RELABELLED,
    kind="map",
    dataset="relabelled/reranked",
    version="2",
    image="gpu",
    pool="gpu",
    memory_gib=4,
)
def rerank_passages(rows: pa.Table, params: RerankPassagesParams, run: Run) -> pa.Table:
    """Order each query's nearest passages by the scores of a cross-encoder.

    The passage that the query was written for competes also where it is not among the nearest, and with ``margin`` more
    than its score: another one takes its place only where the model is sure. ``relevances`` are the scores,
    ``relevance_ranks`` their ranks without the margin; likelihoods there are none. ``positives_changed`` counts queries
    that have another positive now. Rejects: those of
    :meth:`~pipeline_tasks.curation.compared_passages.Compared.read`.

    Source: Gecko 3.2, where an LLM judges. Departures: a model trained on judged pairs in its place, which reads the
    query without its task, as it was trained; the margin.

    Raises:
        InputError: the nearest passages are of other pairs or of other passages, or the reranker is not here, has
            changed since the run began, or gives scores that are no numbers.
    """
    compared = Compared.read(rows, run)
    if not len(compared):
        return RELABELLED.table()
    (scores,) = compared.scores(["relevances"], partial(_scores, params=params, run=run), run, "model", "margin")
    best, ranks = [], np.empty(len(scores), np.int32)
    sources = compared.queries["passage_id"].to_pylist()
    for mine, ids, source in zip(compared.slices(), compared.ids, sources, strict=True):
        best.append(order_with_margin(scores[mine], ids.index(source), params.margin))
        ranks[mine] = ranks_of(np.argsort(-scores[mine], kind="stable"))
    found = {
        "likelihoods": pa.nulls(len(scores), pa.float32()),
        "relevances": pa.array(scores),
        "likelihood_ranks": pa.nulls(len(scores), pa.int32()),
        "relevance_ranks": pa.array(ranks),
    }
    return compared.ordered(best, found, run)


def _scores(compared: Compared, params: RerankPassagesParams, run: Run) -> list[np.ndarray]:
    asked = [text for text, ids in zip(compared.queries["query"].to_pylist(), compared.ids, strict=True) for _ in ids]
    reranker = _reranker(params.start, params.max_length)
    with run.progress(len(asked), "passages") as meter:
        return [reranker.scores(asked, compared.passages["text"].to_pylist(), meter.advance)]


def order_with_margin(scores: np.ndarray, seed: int, margin: float) -> np.ndarray:
    """Places of one query's passages, best first, where the one at ``seed`` has ``margin`` more than its score.

    Of equal sums the seed comes first, then the passage that came first.

    Shapes:
        scores: [n]; returns [n].
    """
    raised = scores.astype(np.float64)
    raised[seed] += margin
    return np.lexsort((np.arange(len(scores)) != seed, -raised))


@lru_cache(maxsize=1)
def _reranker(start: Start, max_length: int) -> CrossEncoder:
    """The reranker; the one opened last stays loaded."""
    return load_cross_encoder(start.files(), max_length, settings().threads, devices().split(",")[0])
