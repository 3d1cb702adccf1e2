"""How any step runs: datasets, manifests, store, runner, lineage. Knows nothing of retrieval."""
