"""Encoders, exact search, BM25: what curation and evaluation both search with."""

STEPS = ("embed_passages", "embed_pairs", "rank_passages")
