"""Relabelling where the truth is planted: does it find the better passage, and does it leave good seeds alone?

``--scorer`` is the folder of a causal model with its weights as safetensors.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from measure import finish, show
from planted_notices import TASK, Query, planted, told

from pipeline_tasks.curation import relevance_prompts as prompts
from pipeline_tasks.curation.causal_scorer import CausalScorer
from pipeline_tasks.curation.relabel import fused_order

WAYS = ("likelihood", "relevance", "fused")


def ranked(queries: list[Query], scorer: CausalScorer) -> dict[str, list[int]]:
    """Place of the best passage of each query, by each way."""
    found: dict[str, list[int]] = {way: [] for way in WAYS}
    for query in queries:
        before = [prompts.before_query(text, TASK) for text in query.candidates]
        likely = scorer.log_likelihoods(prompts.LIKELIHOOD_BEGINNING, before, [f" {query.text}"] * len(before))
        before = [prompts.before_grade(text, TASK, query.text) for text in query.candidates]
        grades = np.exp(scorer.label_log_probs(prompts.RELEVANCE_BEGINNING, before, prompts.GRADES))
        relevant = grades @ np.arange(len(prompts.GRADES))
        found["likelihood"].append(int(np.argmax(likely)))
        found["relevance"].append(int(np.argmax(relevant)))
        found["fused"].append(int(fused_order([likely, relevant])[0][0]))
    return found


def main() -> None:
    """Print a table of all ways, and as the last line the figures of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scorer", type=Path, required=True, help="folder of a causal model")
    parser.add_argument("--queries", type=int, default=40, help="at most 50")
    parser.add_argument("--candidates", type=int, default=8, help="passages that are compared for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="few queries: does it run?")
    args = parser.parse_args()
    queries = planted(4 if args.quick else args.queries, args.candidates, args.seed)
    shares = {way: told(queries, chosen) for way, chosen in ranked(queries, CausalScorer(args.scorer)).items()}
    show("relabelling", ("by", *shares["fused"]), [(way, *of.values()) for way, of in shares.items()])
    finish({"queries": len(queries), "candidates": args.candidates} | shares)


if __name__ == "__main__":
    main()
