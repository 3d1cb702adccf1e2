"""Encoders, exact search, BM25, fusion: what curation and evaluation both search with."""

STEPS = ("embed_passages", "embed_pairs", "rank_passages", "rank_bm25", "fuse_rankings", "nearest_passages")
