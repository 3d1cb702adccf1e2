"""A PDF's bytes to running text: engines, layout, cleaning. See docs/extraction.md."""
