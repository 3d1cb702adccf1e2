"""Columns that several datasets share: one meaning, one name, one type.

Ids are stable and content-made, so that lineage is a join:
``query_id`` -> ``need_id`` -> ``passage_id`` -> ``doc_id`` -> ``url_id``.
"""

from __future__ import annotations

import pyarrow as pa

from pipeline_tasks.core.schema import Column

_text = pa.string()

SEARCH_ID = Column("search_id", _text, "16 hex digits of sha256(query)")
URL_ID = Column("url_id", _text, "16 hex digits of sha256(canonical URL)")
DOC_ID = Column("doc_id", _text, "16 hex digits of sha256(url_id, bytes of the PDF)")
PASSAGE_ID = Column("passage_id", _text, "16 hex digits of sha256(doc_id, first and last character)")
NEED_ID = Column("need_id", _text, "16 hex digits of sha256(passage_id, intent, prompt)")
QUERY_ID = Column("query_id", _text, "16 hex digits of sha256(need_id, prompt)")
URL = Column("url", _text, "address that the document was fetched from")
TITLE = Column("title", _text, "title from the PDF's metadata, else the largest text of the first page")
INTENT = Column("intent", _text, "search intent: one that the domain has")
QUERY = Column("query", _text, "query as a user would write it, without instruction")
INSTRUCTION = Column(
    "instruction", _text, "what this very query is to find, in words that go before it; null: as its intent's say"
)
POSITIVE = Column("positive", _text, "text of a passage that answers the query")
ORIGIN = Column("origin", _text, "whose pair: dm (domain), gd/<set> (general domain), extracted/<source>, a name")
SPLIT = Column("split", _text, "train, dev or test; decided per document, so that no page is on both sides")
RESPONSE_ID = Column("response_id", _text, "key of the LLM's answer in the response store")
OF_AN_EVENT = (
    Column("event", _text, "what happened, or what is stated, in one sentence"),
    Column("topic", _text, "what it is about"),
    Column("organisation", _text, "whose it is; empty where the passage names none"),
    Column("participants", _text, "who or what takes part, with commas between; empty where nobody is named"),
    Column("evidence", _text, "the words of the passage that say so, as they stand there"),
)
