"""Text and split of every passage that can be a positive or a negative: from PDFs, and generated with a query."""

from __future__ import annotations

from pipeline_tasks.core.versions import Version


class PassageTexts:
    """Look-ups over PDF passages and generated positives.

    Args:
        passages: rows of schema ``passages``.
        pairs: rows of schema ``pairs``; a generated positive belongs to its query's split.
    """

    def __init__(self, passages: Version, pairs: Version) -> None:
        self._text: dict[str, str] = {}
        self._split: dict[str, str] = {}
        columns = ((pairs, "positive_id", "positive"), (passages, "passage_id", "text"))
        for version, key, text in columns:
            table = version.table([key, text, "split"])
            ids = table[key].to_pylist()
            self._text.update(zip(ids, table[text].to_pylist(), strict=True))
            self._split.update(zip(ids, table["split"].to_pylist(), strict=True))

    def text(self, passage_id: str) -> str:
        """The passage's text."""
        return self._text[passage_id]

    def split(self, passage_id: str) -> str:
        """The passage's split: train, dev or test."""
        return self._split[passage_id]
