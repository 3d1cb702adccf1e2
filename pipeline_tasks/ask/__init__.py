"""Questions to the corpus: what systems find, why each passage is there, and judgements of it."""
