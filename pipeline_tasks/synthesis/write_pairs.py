"""Queries with their positives: an information need and its passage become a user's query and a passage for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import step
from pipeline_tasks.datasets import NEEDS, PAIRS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.synthesis.llm.asking import PromptTask, Refusal, write_all
from pipeline_tasks.synthesis.llm.endpoint import LlmParams
from pipeline_tasks.synthesis.prompting.writers import writer_of


class WritePairsParams(LlmParams):
    """Which model writes the pairs."""


@step(reads={"needs": NEEDS}, writes=PAIRS, kind="map", version="10", dataset="mtp/dm", pool="llm", secrets=("llm",))
def write_pairs(rows: pa.Table, params: WritePairsParams, run: Run) -> pa.Table:
    """Ask the LLM for a query that expresses each need, and a passage that satisfies it.

    A need of an intent that the domain has no longer is a reject ``unknown_intent``.

    Source: DMRetriever 3.3.1, appendix A, Algorithm 2 line 6. Departures: a pair that fails one of the
    :mod:`~pipeline_tasks.synthesis.checking.checks` is refused; a small model that continues texts is shown worked
    examples of the intent and not its definition.
    """
    needs = sorted(_of_the_domain(rows, run), key=lambda need: (need["intent"], need["passage_id"]))
    writers = {intent: writer_of(domain_folder(), intent, params) for intent in {n["intent"] for n in needs}}
    asked = []
    for need in needs:
        writer = writers[need["intent"]]
        prompt = writer.ask_pair(need["passage"], need["need"], key=need["passage_id"])
        asked.append(PromptTask(prompt, writer.read_pair, writer.repair))
    pairs = []
    for need, one, pair in zip(needs, asked, write_all(asked, "pair", params, run), strict=True):
        if isinstance(pair, Refusal):
            run.reject(need["need_id"], pair.reason, f"{need['intent']}: {pair.detail}")
            continue
        query_id = short_id(need["need_id"], one.prompt.sha256)
        pairs.append(
            {
                "query_id": query_id,
                "need_id": need["need_id"],
                "passage_id": need["passage_id"],
                "doc_id": need["doc_id"],
                "intent": need["intent"],
                "query": pair.value.query,
                "positive_id": short_id("positive", query_id),
                "positive": pair.value.positive,
                "passage": need["passage"],
                "split": need["split"],
                "origin": "dm",
                "need_response_id": need["response_id"],
                "response_id": pair.response_id,
            }
        )
    return PAIRS.table(pairs)


def _of_the_domain(rows: pa.Table, run: Run) -> Iterator[dict[str, Any]]:
    """Needs of an intent that the domain has."""
    known = load_intents(domain_folder())
    for need in rows.to_pylist():
        if need["intent"] in known:
            yield need
        else:
            run.reject(need["need_id"], "unknown_intent", f"{need['intent']}: the domain has {', '.join(known)}")
