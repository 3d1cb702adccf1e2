"""Pairs that somebody has already: query logs, FAQs, judged sets, general-domain sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pydantic import Field, PrivateAttr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import short_id, unit_hash
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import check_known, first_intent, load_intents
from pipeline_tasks.synthesis.pair_files import PairFiles

_PART_ROWS = 10_000
_FIELDS = ("query", "positive", "passage_id", "intent", "origin")


class ReadPairsParams(StepParams):
    """Which files, and what their columns mean."""

    name: str = Field("faq", description="of the dataset mtp/own/<name>; also the pairs' origin, unless they name one")
    source: str = Field(description="a .jsonl, .csv or .parquet file, or a folder of such files")
    columns: dict[str, str] = Field(
        {}, description="query, positive, passage_id, intent, origin -> what their column is called in the files"
    )
    intent: str = Field(default_factory=lambda: first_intent(domain_folder()), description="of rows that name none")
    most_characters: int = Field(8_000, ge=1, description="longer queries and positives are rejects")
    dev_fraction: float = Field(
        0.05, ge=0, lt=1, description="share of pairs without a passage that choose checkpoints"
    )
    _files: PairFiles = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Find the files, and refuse what can name no column."""
        if unknown := sorted(self.columns.keys() - set(_FIELDS)):
            raise InputError(f"columns={self.columns!r}: {unknown[0]!r} is none of {', '.join(_FIELDS)}")
        check_known(domain_folder(), self.intent)
        self._files = PairFiles(self.source)

    def identity(self) -> dict[str, Any]:
        """The parameters, what the files hold wherever they lie, and the intents that there are."""
        intents = sorted(load_intents(domain_folder()))
        return super().identity() | {"source": self._files.identity(), "intents": intents}

    def rows(self) -> Iterator[tuple[str, dict[str, str] | None]]:
        """The place of every row, and its fields as text, empty where it has none; None for a line that is no row."""
        names = {field: self.columns.get(field, field) for field in _FIELDS}
        for place, row in self._files.rows():
            yield str(place), None if row is None else {f: str(row.get(names[f]) or "").strip() for f in _FIELDS}


@step(
    reads={"passages": From(PASSAGES, optional=True)},
    writes=PAIRS,
    kind="reduce",
    dataset="mtp/own/{name}",
)
def read_pairs(inputs: Inputs, params: ReadPairsParams, run: Run) -> Iterator[pa.Table]:
    """Pairs from files, as one more origin beside what an LLM writes; ``combine_pairs`` puts them together.

    A pair has a query and a positive. Where it names one of our passages, that is its source too (and its positive, if
    it has none), and it is on the side of the split that the passage's document is on: what is held out stays so.

    Reasons of rejects: ``bad_line``, ``no_query``, ``no_positive``, ``too_long``, ``unknown_intent``,
    ``unknown_passage``, ``duplicate_pair``.

    Raises:
        InputError: the files are none, or no row of them is a pair.
    """
    passages = _passages(inputs)
    intents = set(load_intents(domain_folder()))
    seen: set[str] = set()
    rows: list[dict[str, Any]] = []
    for place, found in params.rows():
        run.count("rows_in")
        reason = _reason(found, passages, intents, params)
        if reason or found is None:
            run.reject(short_id(params.name, place), reason, f"{place}: {(found or {}).get('query', '')}"[:200])
            continue
        pair = _pair(found, passages, params)
        if pair["query_id"] in seen:
            run.reject(short_id(params.name, place), "duplicate_pair", f"{place}: {found['query']}"[:200])
            continue
        seen.add(pair["query_id"])
        rows.append(pair)
        if len(rows) == _PART_ROWS:
            yield PAIRS.table(rows)
            rows = []
    if not seen:
        asked = ", ".join(f"{field}={params.columns.get(field, field)}" for field in ("query", "positive"))
        raise InputError(
            f"no row of {params.source!r} is a pair: its columns are read as {asked}; name others in columns"
        )
    yield PAIRS.table(rows)


def _passages(inputs: Inputs) -> dict[str, dict[str, str]]:
    """Passages by their id."""
    if "passages" not in inputs:
        return {}
    return {
        row["passage_id"]: row
        for row in inputs["passages"].table(["passage_id", "doc_id", "text", "split"]).to_pylist()
    }


def _reason(
    row: dict[str, str] | None, passages: dict[str, dict[str, str]], intents: set[str], params: ReadPairsParams
) -> str:
    """Why a row is no pair; empty for one that is."""
    if row is None:
        return "bad_line"
    if not row["query"]:
        return "no_query"
    if row["passage_id"] and row["passage_id"] not in passages:
        return "unknown_passage"
    if not row["positive"] and not row["passage_id"]:
        return "no_positive"
    if max(len(row["query"]), len(row["positive"])) > params.most_characters:
        return "too_long"
    return "" if (row["intent"] or params.intent) in intents else "unknown_intent"


def _pair(row: dict[str, str], passages: dict[str, dict[str, str]], params: ReadPairsParams) -> dict[str, Any]:
    source = passages.get(row["passage_id"], {})
    positive = row["positive"] or source["text"]
    query_id = short_id(params.name, row["passage_id"], row["intent"], row["query"], positive)
    drawn = "dev" if unit_hash("read_pairs", query_id) < params.dev_fraction else "train"
    return {
        "query_id": query_id,
        "passage_id": row["passage_id"],
        "doc_id": source.get("doc_id", ""),
        "intent": row["intent"] or params.intent,
        "query": row["query"],
        "positive_id": short_id("positive", query_id),
        "positive": positive,
        "passage": source.get("text", ""),
        "split": source.get("split", drawn),
        "origin": row["origin"] or params.name,
        "need_id": "",
        "need_response_id": "",
        "response_id": "",
    }
