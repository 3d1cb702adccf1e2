"""Relabelling where the truth is known: does it find the better passage, and does it leave good seeds alone?

The truth is planted, or with ``--judged`` what people judged. ``--scorer`` is the folder of a causal model with its
weights as safetensors; or names of encoders with ``+`` between them, which judge by their cosines: each, their ranks
fused, and what they agree on, as ``mutual_agreement`` has it; or the name of a reranker, which gives way to another
passage only by a margin. A margin is chosen on ``--split dev``, whose towns and questions are others.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import judged_seeds
import numpy as np
import planted_notices
from judged_sets import disaster_guides
from measure import finish, show

from pipeline_tasks.core.settings import settings
from pipeline_tasks.curation import relevance_prompts as prompts
from pipeline_tasks.curation.agreement import NOBODY, agreed
from pipeline_tasks.curation.causal_scorer import CausalScorer
from pipeline_tasks.curation.passage_scores import fused_order
from pipeline_tasks.curation.rerank_passages import order_with_margin
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import folder as folder_of
from pipeline_tasks.retrieval.cross_encoder import load_cross_encoder
from pipeline_tasks.retrieval.open_encoder import open_encoder

Query = planted_notices.Query | judged_seeds.Query
TOP_N = 2


def by_causal_model(queries: Sequence[Query], folder: Path) -> dict[str, list[int]]:
    """Place of the best passage of each query, by likelihood, by relevance and by both."""
    scorer = CausalScorer(folder)
    found: dict[str, list[int]] = {way: [] for way in ("likelihood", "relevance", "fused")}
    for query in queries:
        shown = [" ".join(text[:1500].split()) for text in query.candidates]
        before = [prompts.before_query(text, planted_notices.TASK) for text in shown]
        likely = scorer.log_likelihoods(prompts.LIKELIHOOD_BEGINNING, before, [f" {query.text}"] * len(before))
        before = [prompts.before_grade(text, planted_notices.TASK, query.text) for text in shown]
        grades = np.exp(scorer.label_log_probs(prompts.RELEVANCE_BEGINNING, before, prompts.GRADES))
        relevant = grades @ np.arange(len(prompts.GRADES))
        found["likelihood"].append(int(np.argmax(likely)))
        found["relevance"].append(int(np.argmax(relevant)))
        found["fused"].append(int(fused_order([likely, relevant])[0][0]))
    return found


def by_encoders(queries: Sequence[Query], names: Sequence[str]) -> dict[str, list[int]]:
    """Place of the best passage of each query: by each model's cosine, by all fused, and by their agreement.

    Where models agree on no passage, ``mutual_agreement`` leaves the query out; here its seed stays.
    """
    cosines = [_cosines(queries, name) for name in names]
    found = {name: [int(np.argmax(one)) for one in of] for name, of in zip(names, cosines, strict=True)}
    if len(names) > 1:
        of_queries = list(zip(*cosines, strict=True))
        found["fused"] = [int(fused_order(scores)[0][0]) for scores in of_queries]
        tops = np.array([[np.argsort(-one, kind="stable")[:TOP_N] for one in scores] for scores in of_queries])
        seeds = np.array([query.seed for query in queries])
        positive = agreed(tops.astype(np.int32), np.ones(tops.shape[:2], bool), seeds, "mutual")
        found["mutual agreement"] = np.where(positive == NOBODY, seeds, positive).tolist()
    return found


def by_reranker(queries: Sequence[Query], name: str, margins: Sequence[float]) -> dict[str, list[int]]:
    """Place of the best passage of each query, by each margin."""
    model = load_cross_encoder(folder_of(name), 512, settings().threads)
    asked = [(query.text, text) for query in queries for text in query.candidates]
    scores = model.scores(*map(list, zip(*asked, strict=True)))
    of_queries = np.split(scores, np.cumsum([len(query.candidates) for query in queries])[:-1])
    orders = {m: [order_with_margin(of, q.seed, m) for q, of in zip(queries, of_queries, strict=True)] for m in margins}
    return {f"margin {margin:g}": [int(order[0]) for order in found] for margin, found in orders.items()}


def _cosines(queries: Sequence[Query], name: str) -> list[np.ndarray]:
    encoder = open_encoder(name)
    texts = list(dict.fromkeys(text for query in queries for text in query.candidates))
    place = {text: number for number, text in enumerate(texts)}
    asked, passages = encoder.encode_queries([query.text for query in queries]), encoder.encode_passages(texts)
    return [passages[[place[t] for t in q.candidates]] @ vector for q, vector in zip(queries, asked, strict=True)]


def _judged_by(queries: Sequence[Query], args: argparse.Namespace) -> dict[str, list[int]]:
    if Path(args.scorer).is_dir():
        return by_causal_model(queries, Path(args.scorer))
    names = args.scorer.split("+")
    if get(names[0]).role == "reranker":
        return by_reranker(queries, args.scorer, args.margins)
    return by_encoders(queries, names)


def main() -> None:
    """Print a table of all ways, and as the last line the figures of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scorer", required=True, help="folder of a causal model, or encoders: NAME+NAME, or reranker")
    parser.add_argument("--margins", type=float, nargs="+", default=[0, 0.25, 0.5, 1, 2], help="of a reranker")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--judged", type=Path, help="folder of a judged set; without it the truth is planted")
    parser.add_argument("--queries", type=int, default=40, help="at most; 100 are planted, 40 for dev")
    parser.add_argument("--candidates", type=int, default=8, help="planted passages that are compared for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="few queries: does it run?")
    args = parser.parse_args()
    n = 4 if args.quick else args.queries
    if args.judged:
        compare = judged_seeds.compare_seeds
        queries = judged_seeds.judged(disaster_guides(args.judged), n, args.split)
    else:
        compare = planted_notices.compare_seeds
        queries = planted_notices.planted(n, args.candidates, args.seed, args.split)
    found = _judged_by(queries, args)
    shares = {way: compare(queries, chosen) for way, chosen in found.items()}
    show("relabelling", ("by", *next(iter(shares.values()))), [(way, *of.values()) for way, of in shares.items()])
    finish({"queries": len(queries), "candidates": sum(len(q.candidates) for q in queries) / len(queries)} | shares)


if __name__ == "__main__":
    main()
