"""What the reference models agree on, hard negatives, the triplet builds MTT-alpha, and lists of a ranking."""

STEPS = ("mutual_agreement", "mine_negatives", "score_triplets", "sample_rank_lists", "check_tuples_by_margin")
