"""Imported once by the server that worker processes are forked from, so that none of them loads it again."""

from importlib.util import find_spec

from pipeline_tasks.corpus.pdf.language import language_of

for _name in ("pymupdf", "pypdfium2"):
    if find_spec(_name):
        __import__(_name)
language_of("Loads the model.")
