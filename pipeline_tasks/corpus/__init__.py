"""From searches to passages: search, list, crawl, extract, de-duplicate, hold out, chunk, de-duplicate passages."""

STEPS = (
    "plan_searches",
    "search_web",
    "list_urls",
    "crawl",
    "extract_text",
    "sketch_documents",
    "cluster_documents",
    "near_duplicate_documents",
    "hold_out_documents",
    "chunk_passages",
    "cluster_passages",
    "near_duplicate_passages",
)
