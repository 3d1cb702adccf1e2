"""Pairs that somebody has already: query logs, FAQs, judged sets, general-domain sets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PrivateAttr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step
from pipeline_tasks.datasets import PAIRS, PASSAGES
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import check_known, first_intent, load_intents
from pipeline_tasks.synthesis.files.found_pairs import FIELDS, Found, Rules, in_parts, pairs_of
from pipeline_tasks.synthesis.files.no_rows import nothing_in
from pipeline_tasks.synthesis.files.pair_files import PairFiles


class ReadPairsParams(StepParams):
    """Which files, and what their columns mean."""

    name: str = Field(
        "faq", description="name of the dataset mtp/own/<name>; also the pairs' origin, unless they name one"
    )
    source: str = Field(
        description="a .jsonl, .csv, .tsv or .parquet file, also .gz of the first three, or a folder of such files, "
        "here or as s3://bucket/prefix"
    )
    columns: dict[str, str] = Field(
        {}, description="column mapping: query, positive, passage_id, intent or origin -> its column in the files"
    )
    intent: str = Field(
        default_factory=lambda: first_intent(domain_folder()), description="search intent of rows that name none"
    )
    most_characters: int = Field(
        8_000, ge=1, description="longest query or positive, in characters; longer ones are rejected"
    )
    dev_fraction: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="dev split (checkpoint selection): fraction of positives that are no passage of ours",
    )
    _files: PairFiles = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Find the files, and refuse what can name no column."""
        if unknown := sorted(self.columns.keys() - set(FIELDS)):
            raise InputError(f"columns={self.columns!r}: {unknown[0]!r} is none of {', '.join(FIELDS)}")
        check_known(domain_folder(), self.intent)
        self._files = PairFiles(self.source)

    def identity(self) -> dict[str, Any]:
        """The parameters, what the files hold wherever they lie, and the intents that there are."""
        return super().identity() | {"source": self._files.identity(), "intents": sorted(self.intents)}

    @cached_property
    def intents(self) -> list[str]:
        """Those that the domain has, read once."""
        return list(load_intents(domain_folder()))

    def rows(self) -> Found:
        """The rows of all files, with these names for their columns."""
        for place, row in self._files.rows_with_places(FIELDS, self.columns):
            yield place, row and _texts(row)


@step(
    reads={"passages": From(PASSAGES, optional=True)},
    writes=PAIRS,
    kind="reduce",
    dataset="mtp/own/{name}",
    version="6",
)
def read_pairs(inputs: Inputs, params: ReadPairsParams, run: Run) -> Iterator[pa.Table]:
    """Pairs from files, as one more origin beside what an LLM writes; ``combine_pairs`` puts them together.

    A pair has a query and a positive. Where it names one of our passages, that is its source too (and its positive, if
    it has none), and it is on the side of the split that the passage's document is on: what is held out stays so.
    Rows that are no pairs are rejects (:func:`~pipeline_tasks.synthesis.files.found_pairs.pairs_of`).

    Raises:
        InputError: the files are none, or no row of them is a pair.
    """
    passages = _passages(inputs, params)
    rules = Rules(params.name, params.intent, params.intents, params.most_characters, params.dev_fraction, passages)
    n_pairs = 0
    for table in in_parts(pairs_of(params.rows, rules, run), lambda: run.counters["rows_in"]):
        n_pairs += table.num_rows
        yield table
    if not n_pairs:
        raise _refusal(inputs, params, rules, run)


def _refusal(inputs: Inputs, params: ReadPairsParams, rules: Rules, run: Run) -> InputError:
    """Why no row is a pair."""
    rows = ((place, row) for place, row in params.rows() if isinstance(row, dict))
    unknown = (f"{row['passage_id']!r} in {place}," for place, row in rows if rules.reason(row) == "unknown_passage")
    passages = f"passage of {inputs['passages'].manifest.ref}" if "passages" in inputs else "passage, as there are none"
    column = params.columns.get("passage_id", "passage_id")
    return nothing_in(
        params.source,
        run,
        "a pair",
        {field: params.columns.get(field, field) for field in ("query", "positive")},
        unknown_passage=f"{column} {next(unknown, '')} is no {passages}; leave the column out, or name one with ids "
        'of ours: columns={"passage_id": "COLUMN"}',
        unknown_intent=f"the domain has {', '.join(params.intents)}; name one of them, or leave the column out",
        too_long=f"raise most_characters={params.most_characters}, or shorten them",
    )


def _texts(row: dict[str, Any]) -> dict[str, str] | None:
    """The fields of a row as texts, or the one text of a list; None where one is several, an object, true, or bytes."""
    found = {}
    for field, value in row.items():
        while isinstance(value, list) and len(value) == 1:
            (value,) = value
        if isinstance(value, list | dict | bool | bytes):
            return None
        found[field] = "" if value is None else str(value).strip()
    return found


def _passages(inputs: Inputs, params: ReadPairsParams) -> dict[str, dict[str, str]]:
    """Those of our passages that a row names, by their id."""
    named = {row["passage_id"] for _, row in params.rows() if isinstance(row, dict)} - {""}
    if not named or "passages" not in inputs:
        return {}
    wanted, found = pa.array(sorted(named)), dict[str, dict[str, str]]()
    for part in inputs["passages"].parts(["passage_id", "doc_id", "text", "split"]):
        kept = part.filter(pc.is_in(part["passage_id"], wanted))
        found |= {row["passage_id"]: row for row in kept.to_pylist()}
    return found
