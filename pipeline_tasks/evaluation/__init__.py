"""Judged sets, what systems score on them query by query, and whether differences are luck."""

STEPS = (
    "read_passages", "judge_queries", "evaluate_retriever", "pool_passages", "sample_queries", "judge_instructions",
    "evaluate_instructions",
)  # fmt: skip
