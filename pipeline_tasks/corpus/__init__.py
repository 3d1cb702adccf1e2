"""From addresses to passages: list -> crawl -> extract -> de-duplicate -> chunk -> de-duplicate passages."""

STEPS = (
    "list_urls",
    "crawl",
    "extract_text",
    "near_duplicate_documents",
    "chunk_passages",
    "cluster_passages",
    "near_duplicate_passages",
)
