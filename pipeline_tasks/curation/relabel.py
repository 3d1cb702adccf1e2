"""FRet, second half: which of a query's nearest passages is its best, by an LLM that runs here."""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams, step, tuning
from pipeline_tasks.curation import relevance_prompts as prompts
from pipeline_tasks.curation.causal_scorer import CausalScorer, Precision
from pipeline_tasks.curation.compared_passages import READS, Compared
from pipeline_tasks.curation.passage_scores import Scores, ScoringPrompts, expected_grades, ordered_by_both
from pipeline_tasks.datasets import RELABELLED
from pipeline_tasks.encoders.devices import devices
from pipeline_tasks.models.start import Start, start_of
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.retrieval.cross_encoder import finite
from pipeline_tasks.retrieval.fusion import USUAL_K


class RelabelParams(StepParams):
    """Whose nearest passages, and which model compares them."""

    model: str = Field(REFERENCE_MODELS[0], description="encoder whose nearest passages are scored")
    scorer: str = Field(
        "qwen3-0.6b", description="causal LM that scores: a name of `foundry models`, or the path of its folder"
    )
    precision: Precision = Field("float32", description="numeric precision of the scorer; bfloat16 for GPUs")
    passage_chars: int = Field(1_500, ge=100, description="characters of a passage that the scorer reads")
    k: int = Field(USUAL_K, ge=1, description="RRF constant k of the fusion of both scores")
    batch_size: int = tuning(16, ge=1, description="passages per batch of the scorer")

    @cached_property
    def start(self) -> Start:
        """The scorer, as it was when it was first asked for."""
        return start_of(self.scorer)

    def identity(self) -> dict[str, Any]:
        """The parameters, what the scorer's weights are wherever they lie, and what the prompts say."""
        return super().identity() | {"scorer": self.start.identity(), "prompts_sha256": prompts.sha256()}

    def licences(self) -> dict[str, str]:
        """Those of the scorer's weights."""
        return dict(self.start.licences)


@step(
    reads=READS,
    writes=RELABELLED,
    kind="map",
    version="2",
    image="gpu",
    pool="gpu",
    memory_gib=8,
)
def relabel(rows: pa.Table, params: RelabelParams, run: Run) -> pa.Table:
    """Order each query's nearest passages by how likely they make it and by how relevant they are, both ranks fused.

    The passage that the query was written for competes also where it is not among the nearest. ``likelihoods`` are
    log P(query | passage, task), ``relevances`` the expected grade under the model's probabilities of the grades. How
    many queries have another positive now is the counter ``positives_changed``. Rejects: those of
    :meth:`~pipeline_tasks.curation.compared_passages.Compared.read`.

    Source: Gecko 3.2, "LLM-based Positive and Negative Mining"; grades and their expectation: Zhuang et al. 2023,
    "Beyond Yes and No". Departures: the prompts, which are not published, are ours; the seed always competes.

    Raises:
        InputError: the nearest passages are of other pairs or of other passages, or the scorer is not here, has changed
            since the run began, or gives scores that are no numbers.
    """
    compared = Compared.read(rows, run)
    if not len(compared):
        return RELABELLED.table()
    score = partial(_scores, params=params, run=run)
    scores = Scores(*compared.scores(["likelihoods", "relevances"], score, run, "model", "k"))
    return ordered_by_both(compared, scores, params.k, run)


@lru_cache(maxsize=1)
def _scorer(start: Start, precision: Precision, batch_size: int) -> CausalScorer:
    """The scorer; the one opened last stays loaded."""
    return CausalScorer(start.files(), devices().split(",")[0], precision, batch_size)


def _scores(compared: Compared, params: RelabelParams, run: Run) -> list[np.ndarray]:
    """How likely each passage makes its query, and its expected grade."""
    scorer = _scorer(params.start, params.precision, params.batch_size)
    asked = ScoringPrompts.of(compared, params.passage_chars)
    with run.progress(2 * len(asked), "scores") as meter:
        likelihoods = scorer.log_likelihoods(
            prompts.LIKELIHOOD_BEGINNING, asked.before_queries, asked.queries, meter.advance
        )
        grades = scorer.label_log_probs(prompts.RELEVANCE_BEGINNING, asked.before_grades, prompts.GRADES, meter.advance)
    scores = likelihoods, expected_grades(grades)
    return [finite(one, asked.queries, f"scorer={params.scorer!r}") for one in scores]
