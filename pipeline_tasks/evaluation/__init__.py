"""Scores on held-out queries: metrics and the step that evaluates a family."""

STEPS = ("evaluate_retriever",)
