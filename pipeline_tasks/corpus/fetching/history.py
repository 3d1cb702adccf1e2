"""What earlier crawls know: documents, rejects, and when everything was last asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.partitions import PartitionedRun
from pipeline_tasks.core.parts import read_part, write_rows
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.core.versions import Version
from pipeline_tasks.corpus.fetching.outcomes import Outcome, PriorFetch

REFRESH = "refresh"
_VALIDATORS = ["fetched_url", "etag", "last_modified"]
_COLUMNS = ["url_id", "doc_id", "content_sha256", *_VALIDATORS]
_NEWER = pa.schema([(name, pa.string()) for name in ("url_id", "content_sha256", *_VALIDATORS)])


@dataclass(frozen=True)
class History:
    """The version before, by address.

    Attributes:
        known: documents, with the validators that came last.
        newer: those of them whose validators are not those of their row any more.
        n_left: how many were left as such; some of these have other bytes by now, or are gone.
        refused: reason and detail of addresses that gave none.
        refreshes: every address is asked again, also those that are known.
        retries: parameters changed, so what was refused may pass now.
    """

    known: dict[str, PriorFetch] = field(default_factory=dict)
    newer: dict[str, PriorFetch] = field(default_factory=dict)
    n_left: int = 0
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    refreshes: bool = False
    retries: bool = False

    @classmethod
    def read(cls, run: PartitionedRun, params: StepParams) -> History:
        """The history behind ``run``; empty for a first crawl. Reads no document's bytes."""
        if run.previous is None:
            return cls()
        known = {
            row["url_id"]: PriorFetch(
                row["doc_id"], row["content_sha256"], row["fetched_url"], row["etag"], row["last_modified"]
            )
            for part in run.previous.parts(_COLUMNS)
            for row in part.to_pylist()
        }
        (tables,) = run.left([_words(run.previous)])
        left = [row for table in tables for row in read_part(run.store, table).to_pylist()]
        refused = {
            row["row_id"]: (row["reason"], row["detail"])
            for part in run.previous.rejects().parts()
            for row in part.to_pylist()
        }
        now, last = params.identity(), next(run.requests())
        asked = now[REFRESH] and now[REFRESH] != next((p[REFRESH] for p in run.requests() if p[REFRESH]), "")
        changed = {**now, REFRESH: ""} != {**last, REFRESH: ""}
        newer = _newer(left, known)
        return cls(known | newer, newer, len(left), refused, refreshes=bool(asked), retries=changed)

    def asks(self, url_id: str) -> bool:
        """Whether this crawl asks for the address."""
        if self.refreshes:
            return True
        return url_id not in self.known and (self.retries or url_id not in self.refused)

    def keep_validators(self, run: PartitionedRun, outcomes: Mapping[str, Outcome]) -> None:
        """Leave to the next refresh what servers sent with bytes that are known: no row says it, for none changes."""
        newer = dict(self.newer)
        for url_id, known in self.known.items():
            outcome = outcomes.get(url_id)
            if outcome and outcome.sha256 == known.sha256:
                sent = replace(known, **{name: getattr(outcome, name) for name in _VALIDATORS})
                newer |= {url_id: sent} if sent != known else {}
        if run.previous is None or (newer == self.newer and len(newer) == self.n_left):
            return
        rows = [
            {"url_id": url_id, "content_sha256": known.sha256, **{name: getattr(known, name) for name in _VALIDATORS}}
            for url_id, known in sorted(newer.items())
        ]
        run.leave(_words(run.previous), [write_rows(run.store, pa.Table.from_pylist(rows, _NEWER))])


def _newer(left: Iterable[dict[str, Any]], known: Mapping[str, PriorFetch]) -> dict[str, PriorFetch]:
    """What earlier refreshes have left of documents that still have the same bytes."""
    return {
        row["url_id"]: replace(known[row["url_id"]], **{name: row[name] for name in _VALIDATORS})
        for row in left
        if row["url_id"] in known and row["content_sha256"] == known[row["url_id"]].sha256
    }


def _words(previous: Version) -> list[str]:
    return ["validators", previous.manifest.dataset]
