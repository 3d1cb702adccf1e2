"""What is trained on: rows of a split, their texts as a model is asked, tokens on disk, the rows as numbers."""
