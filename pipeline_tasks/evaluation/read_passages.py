"""The corpus of a judged set that lies in a folder, or text to learn from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import added, step
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.evaluation.folder_params import FolderParams, folder_of
from pipeline_tasks.evaluation.judged_folder import CORPUS, CorpusFolder

_PART_ROWS = 50_000


class ReadPassagesParams(FolderParams):
    """A judged set on disk, and what of it is a passage."""

    with_title: bool = Field(False, description="prepend a passage's title to its text, as BEIR does")
    trains: bool = added(False, description="text to train on, no judged set: the folder needs corpus.jsonl alone")

    def model_post_init(self, context: Any) -> None:
        """Find the files."""
        if self.trains:
            self._folder = CorpusFolder(folder_of(self.folder))
        else:
            super().model_post_init(context)


@step(reads={}, writes=PASSAGES, kind="reduce", dataset="corpus/{set_name}", version="2")
def read_passages(inputs: Inputs, params: ReadPassagesParams, run: Run) -> Iterator[pa.Table]:
    """Passages of a judged set, under the ids that they have there; of the split test, or train where they train.

    Reasons of rejects: ``duplicate_id`` (the first one stays), ``blank_text``.
    """
    seen: set[str] = set()
    rows: list[dict[str, Any]] = []
    for row in params.open().rows(CORPUS):
        run.count("rows_in")
        title = row.get("title", "")
        text = f"{title} {row['text']}".strip() if params.with_title else row["text"]
        if row["_id"] in seen or not text.strip():
            run.reject(row["_id"], "duplicate_id" if row["_id"] in seen else "blank_text")
            continue
        seen.add(row["_id"])
        known = {"passage_id": row["_id"], "doc_id": row["_id"], "title": title, "text": text}
        rows.append(known | {"split": "train" if params.trains else "test"})
        if len(rows) == _PART_ROWS:
            yield PASSAGES.table(rows)
            rows = []
    yield PASSAGES.table(rows)
