"""Retriever Foundry: raw PDFs of a domain become a family of dense retrieval models."""

__version__ = "0.1.0"
