"""Who ranks, judges, mines and teaches in ``build_triplets`` where nobody says otherwise: what decides its shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow.sdk.definitions.param import DagParam

from foundry_airflow.forms import Unless
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.parameters import usual
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import settings
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.models.registry import ANY
from pipeline_tasks.retrieval.fusion import BM25
from pipeline_tasks.retrieval.reference_models import first_of_panels, models_of
from pipeline_tasks.synthesis.files.general_sets import general_sets


@dataclass(frozen=True)
class Rankers:
    """Names of models, and ``bm25``.

    Attributes:
        models: whose rankings ``mutual_agreement`` reads.
        best: those of them that negatives come from: the first judge of every intent.
        fused: what ``fuse_rankings`` makes one ranking of.
        judges: intent, or any -> whose rankings of its queries are read.
    """

    models: list[str]
    best: list[str]
    fused: list[str]
    judges: Mapping[str, Sequence[str]]

    @property
    def embedders(self) -> list[str]:
        """Those that have vectors."""
        return [model for model in self.models if model != BM25]

    @property
    def teachers(self) -> list[str]:
        """Those that score triplets, which takes vectors: the best ones, else the first that has any."""
        return [model for model in self.best if model != BM25] or self.embedders[:1]

    def encoding_limits(self, model: str, all_if: DagParam) -> dict[str, Unless]:
        """Parameters by which ``model`` encodes nothing for an intent that others judge, unless the field is on.

        A set of the general domain has one intent, so that none of it is encoded where that is none of the model's.
        There are no such parameters where it judges all intents, or none, or is the teacher of all triplets.
        """
        known = load_intents(domain_folder())
        mine = [intent for intent in known if model in self.judges.get(intent, self.judges.get(ANY, ()))]
        if len(mine) in (0, len(known)) or self.teachers == [model]:
            return {}
        others = {f"gd/{name}": one.intent for name, one in general_sets().items() if one.intent not in mine}
        return {"intents": Unless(all_if, mine), "of_one_intent": Unless(all_if, others)}


def rankers() -> Rankers:
    """As the operator's file says, else as the steps do.

    Raises:
        InputError: a list of the file has a model that another one lacks; it names the file.
    """
    agreement = get_step("mutual_agreement")
    found = agreement.parse(usual(agreement)).model_dump()
    models, best = list(dict.fromkeys(found["models"])), first_of_panels(found["judges"])
    mined, fused = (usual(get_step(name)).get("models") for name in ("mine_negatives", "fuse_rankings"))
    _covers("[mutual_agreement] judges", models_of(found["judges"]), "[mutual_agreement] models", models)
    _covers("[mutual_agreement] judges", best, "[mine_negatives] models", mined or best)
    _covers("[fuse_rankings] models", fused or (), "[mutual_agreement] models", [*models, BM25])
    fused = fused or [*(model for model in models if model != BM25), BM25]
    return Rankers(models, best, fused, found["judges"])


def _covers(of: str, wanted: Iterable[str], where: str, named: Iterable[str]) -> None:
    if missing := [model for model in wanted if model not in named]:
        raise InputError(
            f"FOUNDRY_PARAMETERS={settings().parameters}: {of} says that rankings by {missing[0]!r} are read, and "
            f"{where} lacks it: name it in both, or leave one of the lists out"
        )
