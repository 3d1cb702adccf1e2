"""Toy steps: numbers, their squares, their sum, and ways to fail."""

STEPS = ("count", "square", "total", "again", "refine", "stumble")
