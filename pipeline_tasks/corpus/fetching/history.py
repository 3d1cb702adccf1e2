"""What earlier crawls know: documents, rejects, and when everything was last asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.corpus.fetching.outcomes import Known

REFRESH = "refresh"
_COLUMNS = ["url_id", "doc_id", "content_sha256", "fetched_url", "etag", "last_modified"]


@dataclass(frozen=True)
class History:
    """The version before, by address.

    Attributes:
        known: documents.
        refused: reason and detail of addresses that gave none.
        refreshes: every address is asked again, also those that are known.
        retries: parameters changed, so what was refused may pass now.
    """

    known: dict[str, Known] = field(default_factory=dict)
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    refreshes: bool = False
    retries: bool = False

    @classmethod
    def read(cls, run: Run, params: StepParams) -> History:
        """The history behind ``run``; empty for a first crawl. Reads no document's bytes."""
        if run.previous is None:
            return cls()
        known = {
            row["url_id"]: Known(
                row["doc_id"], row["content_sha256"], row["fetched_url"], row["etag"], row["last_modified"]
            )
            for part in run.previous.parts(_COLUMNS)
            for row in part.to_pylist()
        }
        refused = {
            row["row_id"]: (row["reason"], row["detail"])
            for part in run.previous.rejects().parts()
            for row in part.to_pylist()
        }
        now, last = params.identity(), next(run.requests())
        asked = now[REFRESH] and now[REFRESH] != next((p[REFRESH] for p in run.requests() if p[REFRESH]), "")
        changed = {**now, REFRESH: ""} != {**last, REFRESH: ""}
        return cls(known, refused, refreshes=bool(asked), retries=changed)

    def asks(self, url_id: str) -> bool:
        """Whether this crawl asks for the address."""
        if self.refreshes:
            return True
        return url_id not in self.known and (self.retries or url_id not in self.refused)
