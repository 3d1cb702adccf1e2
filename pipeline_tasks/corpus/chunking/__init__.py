"""Cutting a text into passages: words and their tokens, places to cut, drift of meaning, the best set of cuts."""
