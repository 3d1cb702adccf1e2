"""What reference models agree on or an LLM prefers, hard negatives, the triplet builds, and lists of a ranking."""

STEPS = (
    "mutual_agreement", "mine_negatives", "score_triplets", "sample_rank_lists", "check_tuples_by_margin", "relabel",
    "grade_passages", "score_passages", "rerank_passages", "unify",
)  # fmt: skip
