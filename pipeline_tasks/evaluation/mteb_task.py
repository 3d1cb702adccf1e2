"""Judged sets as tasks of mteb, and models as it calls them: others' code scores ours, and ours stands beside theirs.

mteb is installed by the extra ``mteb`` and imported here and in :mod:`pipeline_tasks.evaluation.mteb_files` alone.

Source: Muennighoff et al. 2023, "MTEB: Massive Text Embedding Benchmark".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.evaluation.rank_systems import is_of
from pipeline_tasks.evaluation.systems import encoder_of_folder, identity, kind_of
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.open_encoder import open_encoder

if TYPE_CHECKING:
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.models import ModelMeta

TEST, _SUBSET = "test", "default"
T = TypeVar("T")


def task_of(store: Store, name: str) -> AbsTaskRetrieval:
    """The judged set ``judged/<name>`` over the passages that it was judged on, as a retrieval task.

    Raises:
        InputError: there is no such set.
    """
    from datasets import Dataset
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    version = Version.open(store, Ref.parse(f"judged/{name}"))
    corpus = Version.open(store, Ref.parse(version.manifest.inputs["passages"][0]))
    judged = version.table(["query_id", "query", "passage_ids", "grades"]).to_pylist()
    queries = [row for row in judged if any(grade > 0 for grade in row["grades"])]  # an erasure may leave others
    passages = corpus.table(["passage_id", "text"]).rename_columns(["id", "text"])
    data: Any = {
        "corpus": Dataset(passages),
        "queries": Dataset.from_list([{"id": row["query_id"], "text": row["query"]} for row in queries]),
        "relevant_docs": {r["query_id"]: dict(zip(r["passage_ids"], r["grades"], strict=True)) for r in queries},
        "top_ranked": None,
    }
    facts = {
        "name": name,
        "description": f"{version.manifest.ref} over {corpus.manifest.ref}",
        "dataset": {"path": version.manifest.dataset, "revision": _revision(version, corpus)},
        "type": "Retrieval",
        "main_score": "ndcg_at_10",
    }
    asked = {row["query_id"]: row["query"] for row in queries}
    same = passages.filter(pc.is_in(passages["id"], value_set=pa.array(asked, pa.string())))
    themselves = any(is_of(asked[row["id"]], row["text"]) for row in same.to_pylist())
    return in_memory(AbsTaskRetrieval, facts, {TEST: data}, ignore_identical_ids=themselves)


def in_memory(kind: type[T], facts: Mapping[str, Any], splits: Mapping[str, Any], **said: Any) -> T:
    """A task of mteb's ``kind`` whose data are here; it is scored on the split ``test``.

    mteb files results by a task's name and reads them again whatever the data's revision, so the name ends with it.
    What is ``said`` beside the data are attributes of the task.
    """
    from mteb.abstasks.task_metadata import TaskMetadata

    def load_data(task: Any, num_proc: int | None = None, **_: Any) -> None:
        task.dataset = {_SUBSET: splits}
        task.data_loaded = True

    name = f"{facts['name']}@{facts['dataset']['revision']}"
    metadata = TaskMetadata(**{**facts, "name": name}, eval_splits=[TEST], eval_langs=["eng-Latn"])
    made: type[T] = type(f"InMemory{kind.__name__}", (kind,), {"metadata": metadata, "load_data": load_data} | said)
    return made()


class MtebModel:
    """A model of ours as mteb calls one; queries are asked without an intent's instruction.

    A ``task`` goes before every query, as the model is given a query's own instruction, and before both sides of what
    has neither queries nor passages: similarity and classification.
    """

    def __init__(self, encoder: Encoder, revision: str, task: str = "") -> None:
        self._encoder, self._revision, self._task = encoder, revision, task

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """What mteb files results under."""
        from mteb.models import ModelMeta

        revision = "-".join(filter(None, [self._revision, short_id(self._task) if self._task else ""]))
        known = {"name": f"retriever-foundry/{self._encoder.name}", "revision": revision}
        facts: dict[str, Any] = dict.fromkeys(ModelMeta.model_fields) | known
        facts |= {"modalities": ["text"], "model_type": ["dense"], "framework": []}
        return ModelMeta.model_construct(None, **facts)

    def encode(self, inputs: Iterable[Mapping[str, list[str]]], *, prompt_type: Any = None, **_: Any) -> np.ndarray:
        """Vectors of all batches; of queries where ``prompt_type`` says so, or says nothing and there is a task.

        Shapes: returns [n, d].
        """
        texts = [text for batch in inputs for text in batch["text"]]
        side = getattr(prompt_type, "value", prompt_type)
        if side == "query" or (side is None and self._task):
            return self._encoder.encode_queries(texts, None, [self._task] * len(texts))
        return self._encoder.encode_passages(texts)

    def similarity(self, one: np.ndarray, other: np.ndarray) -> Any:
        """Cosines [a, b]."""
        import torch

        return torch.as_tensor(one) @ torch.as_tensor(other).T

    def similarity_pairwise(self, one: np.ndarray, other: np.ndarray) -> Any:
        """Cosines [n]."""
        import torch

        return (torch.as_tensor(one) * torch.as_tensor(other)).sum(dim=1)


def model_of(store: Store, name: str, task: str = "") -> MtebModel:
    """A version of ours, a registered model, or a model's folder, for ``mteb.evaluate``; queries are told ``task``.

    Raises:
        InputError: it is not there.
    """
    kind = kind_of(name)
    if kind != "version":
        encoder = encoder_of_folder(name) if kind == "folder" else open_encoder(name)
        return MtebModel(encoder, short_id(identity(name)), task)
    version = Version.open(store, Ref.parse(name))
    target = settings().cache / "mteb" / version.manifest.id
    weights = version.manifest.content  # trained again, the id may have others
    return MtebModel(encoder_of_folder(str(Path(version.lay_out(target)))), f"{version.manifest.id}-{weights}", task)


def _revision(version: Version, *others: Version) -> str:
    """The version's id, and one of what was erased from it or from others that it is read with."""
    erased = [each.manifest.erased for each in (version, *others)]
    return version.manifest.id + (f"-{short_id(erased)}" if any(erased) else "")
