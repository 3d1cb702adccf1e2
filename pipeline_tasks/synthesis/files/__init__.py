"""Pairs and triplets that somebody has already: the files that they are in, and the sets of the general domain."""
