"""The offline demo: a sample corpus, turned into PDFs and served from this machine."""
