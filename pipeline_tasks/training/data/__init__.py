"""What is trained on: rows of text read a block at a time, their tokens on disk, the rows themselves as numbers."""
