"""Pairs: an LLM writes needs, then query and positive, per search intent; others come from files."""

STEPS = ("write_needs", "write_pairs", "read_pairs", "combine_pairs")
