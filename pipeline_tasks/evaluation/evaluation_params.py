"""What an evaluation compares, on which queries, by which measures."""

from __future__ import annotations

from typing import Any

from pydantic import Field, PrivateAttr

from pipeline_tasks.core.made_from import check_corpus
from pipeline_tasks.core.paid.endpoint import PaidParams
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.runtime import versions_of
from pipeline_tasks.core.settings import Secret
from pipeline_tasks.evaluation import systems
from pipeline_tasks.evaluation.metrics import Measure
from pipeline_tasks.evaluation.systems import BM25, kind_of
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.start import StartParams
from pipeline_tasks.models.use import is_served
from pipeline_tasks.retrieval.open_encoder import instructions_of
from pipeline_tasks.retrieval.reference_models import default_models

MEASURES = ("ndcg@10", "map@10", "mrr@10", "recall@10", "hit@10")


class EvaluationParams(StartParams, PaidParams):
    """What is compared on which queries."""

    set_name: str = Field("heldout", description="name of the judged set; also of the dataset eval/<set>")
    size: str = Field("33m", description="size whose untrained start is compared, too; empty: none is")
    models: tuple[str, ...] = Field(
        default_factory=default_models, description="models whose stored embeddings are read, where there are any"
    )
    systems: tuple[str, ...] = Field(
        (BM25,),
        description="bm25, names of `foundry models`, folders of models, and fusions by rank: rrf(bm25,33m/pretrain)",
    )
    measures: tuple[str, ...] = Field(
        MEASURES, min_length=1, description="ndcg, map, mrr, recall, hit, precision at a cut-off"
    )
    kept: int = Field(10, ge=0, description="top passages of each ranking that the rows keep")
    _folders: dict[str, dict[str, Any]] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any) -> None:
        """Refuse what cannot be meant, a trained model too, before anything is computed, and look at folders once."""
        super().model_post_init(context)
        for measure in self.measures:
            Measure.parse(measure)
        self._folders = {
            name: systems.identity(name) for name in self.systems if kind_of(name) in ("folder", "version")
        }

    def check_versions(self, inputs: Inputs) -> None:
        """Refuse queries that were judged on other passages."""
        if "queries" in inputs and "passages" in inputs:
            check_corpus(inputs["queries"], inputs["passages"])

    def identity_of(self, name: str) -> dict[str, Any]:
        """What decides the rankings of a named system; of a folder what it was when these parameters were made."""
        return self._folders.get(name) or systems.identity(name)

    def identity(self) -> dict[str, Any]:
        """The parameters, what each named system is and how the rows call it, and what instructed ones are told.

        The library that cuts texts for trained versions, too, which are inputs.
        """
        found = super().identity() | {"systems": [{"name": name} | self.identity_of(name) for name in self.systems]}
        found |= {"libraries": versions_of("tokenizers")}
        asked = [get(name) for name in (*self._registered, *self._registered_start)]
        instructions = next(filter(None, map(instructions_of, asked)), {})
        return found | ({"instructions": instructions} if instructions else {})

    @classmethod
    def from_identity(cls, identity: dict[str, Any]) -> dict[str, Any]:
        """See :meth:`StepParams.from_identity`; of a system its name."""
        found = super().from_identity(identity)
        return found | {"systems": [system["name"] for system in found.get("systems", ())]}

    def secrets(self, declared: tuple[Secret, ...]) -> tuple[Secret, ...]:
        """Only a served model wants a key."""
        return declared if any(is_served(get(name)) for name in self._registered) else ()

    @property
    def _registered(self) -> tuple[str, ...]:
        """All that the registry knows."""
        return (*self.models, *(name for name in self.systems if kind_of(name) == "registered"))

    @property
    def _registered_start(self) -> tuple[str, ...]:
        """What the untrained system is, where the registry knows it."""
        return (self.start.name,) if self.has_start and self.start.folder is None else ()

    @property
    def depth(self) -> int:
        """Ranks that the measures and the rows look at."""
        deepest = max([self.kept, *(Measure.parse(measure).k for measure in self.measures)])
        judged = any(Measure.parse(measure).judged_only for measure in self.measures)
        return max(deepest, systems.FUSED_DEPTH) if judged else deepest
