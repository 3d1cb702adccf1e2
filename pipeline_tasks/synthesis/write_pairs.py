"""Queries with their positives: an information need and its passage become a user's query and a passage for it."""

from __future__ import annotations

import pyarrow as pa

from pipeline_tasks.core.endpoint import Unanswered
from pipeline_tasks.core.ids import digest, short_id
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import step
from pipeline_tasks.datasets import NEEDS, PAIRS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.synthesis.endpoint import SHOWN, LlmParams, ask_all
from pipeline_tasks.synthesis.parse import Rejected, parse_pair
from pipeline_tasks.synthesis.prompts import load_prompts


class WritePairsParams(LlmParams):
    """Which model writes the pairs."""


@step(reads={"needs": NEEDS}, writes=PAIRS, kind="map", version="2", dataset="mtp/dm", pool="llm", secrets=("llm",))
def write_pairs(rows: pa.Table, params: WritePairsParams, run: Run) -> pa.Table:
    """Ask the LLM for a query that expresses each need, and a passage that satisfies it.

    Source: DMRetriever 3.3.1, appendix A, Algorithm 2 line 6. Departures: the prompt shows worked examples of the
    intent and not its definition; a pair that shares too few words with the passage is refused.
    """
    needs = sorted(rows.to_pylist(), key=lambda need: (need["intent"], need["passage_id"]))
    forms = {intent: load_prompts(domain_folder(), intent) for intent in {n["intent"] for n in needs}}
    led = params.api == "completions"
    prompts = [forms[n["intent"]].ask_pair(n["passage"], n["need"], key=n["passage_id"], led=led) for n in needs]
    pairs = []
    for need, prompt, response in zip(needs, prompts, ask_all(prompts, params, run), strict=True):
        if isinstance(response, Unanswered):
            run.reject(need["need_id"], f"llm_{response.reason}", f"{need['intent']}: {response.detail}")
            continue
        pair = parse_pair(response.text, prompt, cut_off=response.finish_reason == "length")
        if isinstance(pair, Rejected):
            run.reject(need["need_id"], f"pair_{pair.reason}", f"{need['intent']}: {response.text[:SHOWN]}")
            continue
        query_id = short_id(need["need_id"], digest(prompt.text))
        pairs.append(
            {
                "query_id": query_id,
                "need_id": need["need_id"],
                "passage_id": need["passage_id"],
                "doc_id": need["doc_id"],
                "intent": need["intent"],
                "query": pair.query,
                "positive_id": short_id("positive", query_id),
                "positive": pair.positive,
                "passage": need["passage"],
                "split": need["split"],
                "origin": "dm",
                "need_response_id": need["response_id"],
                "response_id": response.response_id,
            }
        )
    return PAIRS.table(pairs)
