"""Which systems a store can ask without making anything new but a trained model's vectors."""

from __future__ import annotations

from pipeline_tasks.ask import vectors
from pipeline_tasks.ask.corpus import Corpus
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.settings import settings
from pipeline_tasks.evaluation.systems import BM25
from pipeline_tasks.models.fetch import is_here
from pipeline_tasks.models.registry import models
from pipeline_tasks.models.use import is_served

_TRAINED = """
    SELECT dataset FROM versions WHERE is_latest AND starts_with(dataset, 'model/') AND NOT ends_with(dataset, '/adapt')
    ORDER BY created_at DESC, dataset"""


def trained(reader: Reader) -> list[str]:
    """Retrievers that were trained in this store, newest first: ``model/22m/finetune``."""
    return [row["dataset"] for row in reader.ask(_TRAINED)]


def embedded(corpus: Corpus) -> list[str]:
    """Models of the registry whose vectors of this corpus are stored and whose weights are here."""
    here = [spec.name for spec in models() if not is_served(spec) and is_here(spec, settings().cache)]
    return [name for name in here if vectors.stored(corpus, name)]


def best_first(corpus: Corpus, reader: Reader) -> list[str]:
    """All of them: trained ones, newest first, then models with stored vectors, then BM25."""
    return [*trained(reader), *embedded(corpus), BM25]
