"""Rankings to rows of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline_tasks.evaluation.metrics import mrr_at_k, ndcg_at_k, ranked_relevance, recall_at_k

AVERAGE = "average"


def score_rows(
    system: str,
    model_version: str,
    ranked_ids: Sequence[Sequence[str]],
    judged: Sequence[Mapping[str, int]],
    intents: Sequence[str],
    k: int,
) -> list[dict]:
    """Rows of schema ``evaluations``: each metric per intent, and ``average``, the mean over intents.

    Args:
        system: what is scored.
        model_version: ``dataset@version`` of a trained model, or empty.
        ranked_ids: per query, passage ids best first.
        judged: per query, passage id -> relevance.
        intents: per query.
        k: cut-off rank.
    """
    ranked, ideal = ranked_relevance(ranked_ids, judged)
    metrics = {
        f"ndcg@{k}": ndcg_at_k(ranked, ideal, k),
        f"mrr@{k}": mrr_at_k(ranked, k),
        f"recall@{k}": recall_at_k(ranked, ideal, k),
    }
    of_intent = np.array(intents)
    rows = []
    for metric, values in metrics.items():
        means = {intent: float(values[of_intent == intent].mean()) for intent in sorted(set(intents))}
        counts = {intent: int((of_intent == intent).sum()) for intent in means}
        means[AVERAGE], counts[AVERAGE] = float(np.mean(list(means.values()))), len(values)
        for intent, score in means.items():
            rows.append(
                {
                    "evaluation_id": f"{system}/{intent}/{metric}",
                    "system": system,
                    "model_version": model_version,
                    "intent": intent,
                    "metric": metric,
                    "score": score,
                    "n_queries": counts[intent],
                }
            )
    return rows
