"""What the reference models agree on, hard negatives, and the triplet builds MTT-alpha."""

STEPS = ("mutual_agreement", "mine_negatives", "score_triplets")
