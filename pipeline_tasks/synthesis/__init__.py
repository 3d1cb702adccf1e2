"""Pairs: an LLM writes needs, then query and positive, per search intent; others come from files or passages."""

STEPS = (
    "write_needs", "write_pairs", "read_pairs", "read_general_pairs", "read_classes", "read_triplets",
    "extract_queries", "combine_pairs", "decontaminate_pairs", "write_tasks_and_queries", "decontaminate_tasks",
    "write_instructions", "poison_tuples", "check_tuples", "extract_events", "write_event_queries",
    "decontaminate_event_queries", "decontaminate_triplets",
)  # fmt: skip
