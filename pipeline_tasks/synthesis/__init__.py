"""An LLM writes queries for passages: information needs, then query and positive passage, per search intent."""

STEPS = ("write_needs", "write_pairs", "combine_pairs")
